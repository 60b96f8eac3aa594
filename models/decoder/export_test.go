package decoder

// Span is a span, for tests.
type Span struct{ From, To, N int }

func exported(spans []span) (list []Span) {
	for _, s := range spans {
		list = append(list, Span{s.from, s.to, s.n})
	}
	return list
}

// QueriesOf and KeysOf are the heads of a device.
func QueriesOf(p Partition, device int) []Span { return exported(p.queries(device, 1)) }

func KeysOf(p Partition, device int) []Span { return exported(p.keys(device, 1)) }
