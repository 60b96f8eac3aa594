package parameter

// Given are the parameters that a row sets; the others have the job's values.
type Given struct {
	values Set    // values of the given parameters; zero elsewhere
	names  uint64 // one bit for each of own
}

// Has reports whether a parameter is given.
func (g *Given) Has(p *Parameter) bool { return g.names&(1<<p.place) != 0 }

// Give marks a parameter as given, and returns a pointer to its value as [Parameter.At] does.
func (g *Given) Give(p *Parameter) any {
	g.names |= 1 << p.place
	return p.slot.pointer(&g.values)
}

// Values returns the values; parameters that are not given are zero.
func (g *Given) Values() Set { return g.values }

// Over returns s with the given values in place of its own.
func (g *Given) Over(s Set) Set {
	for p := range Own() {
		if g.Has(p) {
			p.slot.copy(&s, &g.values)
		}
	}
	return s
}

// Value returns the value of a parameter, or nil if it is not given.
func (g *Given) Value(p *Parameter) any {
	if !g.Has(p) {
		return nil
	}
	return p.slot.get(&g.values)
}
