package automaton

// Members are texts with a separator between two, some of which may be left out: the members of a JSON object, the
// items of an array. Those of the list are first, in their order, and further ones behind them, unless Order says
// otherwise.
type Members struct {
	List      []Member
	More      []Variant // what each of the further members may be; none where there are no further ones
	Separator Expr
	Min, Max  int // how many there are; Max may be Unlimited
	Order     Order
	Counters  []Counter // 32 at most
	// Fresh has Min count a member that has counters only if one of them has not counted it before. Max is Unlimited.
	Fresh bool
}

// Order is that of Members.
type Order uint8

// The orders.
const (
	ListOrder Order = iota // the list's, of which some may be left out
	AnyOrder               // any, also of the further ones
	AtPlaces               // the list's, of which the last may be left out
)

// Member is one of a list. It comes once at most.
type Member struct {
	Variants []Variant
	Required bool
}

// Variant is a text that a member may have.
type Variant struct {
	Text   Expr
	Counts uint32 // bits: the counters that it adds 1 to
	Unless uint32 // bits: the counters that must be 0 for it to come
}

// One is the only variant of a member, which nothing counts.
func One(text Expr) []Variant { return []Variant{{Text: text}} }

// Counter says how many of the members that it counts there are. Max may be Unlimited.
type Counter struct{ Min, Max int }

// last is the highest number that a counter tells from others.
func (c Counter) last() int32 {
	if c.Max != Unlimited {
		return int32(c.Max)
	}
	return int32(max(c.Min, 1))
}

// maxCounts bounds the combinations of what counters say.
const maxCounts = 1 << 16

// Members makes an expression of members.
func (b *Builder) Members(m Members) Expr {
	b.members = append(b.members, m)
	if m.combinations() > maxCounts {
		b.err = errTooMany
	}
	at := int32(0)
	if m.Order == AnyOrder {
		at = b.seenID(string(make([]byte, (len(m.List)+7)/8)))
	}
	return b.membersFrom(int32(len(b.members)-1), at, 0, 0)
}

// variants are those of all members.
func (m *Members) variants() (list []Variant) {
	for _, member := range m.List {
		list = append(list, member.Variants...)
	}
	return append(list, m.More...)
}

// combinations counts what counters may say together.
func (m *Members) combinations() int {
	n := 1
	for _, c := range m.Counters {
		if n *= int(c.last()) + 1; n > maxCounts {
			break
		}
	}
	return n
}

// counted is what the counters say behind a variant, and whether it may come.
func (m *Members) counted(counts int32, v Variant) (int32, bool) {
	unit := int32(1)
	for i, c := range m.Counters {
		n, bit := counts/unit%(c.last()+1), uint32(1)<<i
		switch {
		case v.Unless&bit != 0 && n > 0:
			return 0, false
		case v.Counts&bit == 0:
		case n < c.last():
			counts += unit
		case c.Max != Unlimited:
			return 0, false
		}
		unit *= c.last() + 1
	}
	return counts, true
}

// tally is how many members there are with a variant that leads from some counts to others.
func (m *Members) tally(count, before, after int32, v Variant) int32 {
	if m.Fresh && v.Counts != 0 && before == after {
		return count
	}
	return count + 1
}

// satisfied says that counters are not below what they must be.
func (m *Members) satisfied(counts int32) bool {
	for _, c := range m.Counters {
		if int(counts%(c.last()+1)) < c.Min {
			return false
		}
		counts /= c.last() + 1
	}
	return true
}

// seenID numbers a set of members, of those that have come in any order.
func (b *Builder) seenID(set string) int32 {
	if id, ok := b.seenIDs[set]; ok {
		return id
	}
	if b.seenIDs == nil {
		b.seenIDs = map[string]int32{}
	}
	id := int32(len(b.seen))
	b.seen = append(b.seen, set)
	b.seenIDs[set] = id
	return id
}

// gone says that member i can't come any more: it has, or one behind it has.
func (b *Builder) gone(m *Members, at int32, i int) bool {
	if m.Order == AnyOrder {
		return b.seen[at][i>>3]>>(i&7)&1 != 0
	}
	return i < int(at)
}

// with is where members are behind member i.
func (b *Builder) with(m *Members, at int32, i int) int32 {
	if m.Order != AnyOrder {
		return int32(i + 1)
	}
	set := []byte(b.seen[at])
	set[i>>3] |= 1 << (i & 7)
	return b.seenID(string(set))
}

// withMore is where members are behind a further one.
func (m *Members) withMore(at int32) int32 {
	if m.Order != AnyOrder {
		return int32(len(m.List))
	}
	return at
}

// membersFrom is the members that are left at a place, with so many before them. state is what the counters say, and in
// its lowest bit whether there is one before.
func (b *Builder) membersFrom(of, at, count, state int32) Expr {
	if m := &b.members[of]; m.Max == Unlimited {
		count = min(count, int32(m.Min)) // nothing depends on more
	}
	return b.intern(key{kindMembers, of, at, count, state}, false, false, false)
}

// expand returns what members begin with: for each one that may be next the text and what follows it; and whether there
// may be none.
func (b *Builder) expand(k key) (next []Expr, none bool) {
	m := b.members[k.a]
	count, counts := int(k.c), k.d>>1
	none = count >= m.Min && m.satisfied(counts) && b.required(&m, k.b) == 0
	if m.Max != Unlimited && count >= m.Max {
		return nil, none
	}
	take := func(list []Variant, at int32) {
		for _, v := range list {
			after, ok := m.counted(counts, v)
			if !ok || !b.productive(v.Text) {
				continue
			}
			if rest := b.membersFrom(k.a, at, m.tally(k.c, counts, after, v), after<<1|1); b.productive(rest) {
				next = append(next, b.behind(k, v.Text, rest))
			}
		}
	}
	for i, member := range m.List {
		if b.gone(&m, k.b, i) {
			continue
		}
		take(member.Variants, b.with(&m, k.b, i))
		if member.Required && m.Order == ListOrder || m.Order == AtPlaces {
			return next, none
		}
	}
	take(m.More, m.withMore(k.b))
	return next, none
}

func (b *Builder) behind(k key, text, rest Expr) Expr {
	if k.d&1 == 0 {
		return b.seq(text, rest)
	}
	return b.Seq(b.members[k.a].Separator, text, rest)
}

// canBe says that some variant has a text.
func (b *Builder) canBe(list []Variant) bool {
	for _, v := range list {
		if b.productive(v.Text) {
			return true
		}
	}
	return false
}

// required counts the required members that are left; -1 where one of them can't be.
func (b *Builder) required(m *Members, at int32) int {
	n := 0
	for i, member := range m.List {
		if member.Required && !b.gone(m, at, i) {
			if !b.canBe(member.Variants) {
				return -1
			}
			n++
		}
	}
	return n
}

// enough says that members can be brought to an end.
func (b *Builder) enough(k key) bool {
	m := &b.members[k.a]
	if len(m.Counters) > 0 || m.Order == AtPlaces {
		return b.completes(m, k.b, tallies{k.c, k.d >> 1})
	}
	count, required := int(k.c), b.required(m, k.b)
	if required < 0 || m.Max != Unlimited && count+required > m.Max {
		return false
	}
	if count+required >= m.Min || b.canBe(m.More) {
		return true
	}
	for i, member := range m.List {
		if !b.gone(m, k.b, i) && b.canBe(member.Variants) {
			count++
		}
	}
	return count >= m.Min
}

// tallies is how many members there were, and what the counters say of them.
type tallies struct{ count, counts int32 }

// completes is enough where there are counters. It goes through the members that are left, with all tallies that those
// before may lead to, and then on by further ones. Members in any order are tried in the list's: the tallies are the
// same.
func (b *Builder) completes(m *Members, at int32, from tallies) bool {
	ends := func(t tallies) bool { return int(t.count) >= m.Min && m.satisfied(t.counts) }
	step := func(to map[tallies]bool, t tallies, list []Variant) {
		if m.Max != Unlimited && int(t.count) >= m.Max {
			return
		}
		for _, v := range list {
			if counts, ok := m.counted(t.counts, v); ok && b.productive(v.Text) {
				next := tallies{m.tally(t.count, t.counts, counts, v), counts}
				if m.Max == Unlimited {
					next.count = min(next.count, int32(m.Min))
				}
				to[next] = true
			}
		}
	}
	now := map[tallies]bool{from: true}
	for i, member := range m.List {
		if b.gone(m, at, i) {
			continue
		}
		next := map[tallies]bool{}
		for t := range now {
			if m.Order == AtPlaces && ends(t) {
				return true
			}
			if m.Order != AtPlaces && !member.Required {
				next[t] = true
			}
			step(next, t, member.Variants)
		}
		now = next
	}
	// Behind Min members what the counters say is all that matters, and that there are few.
	fewest := map[tallies]int32{}
	for len(now) > 0 {
		next := map[tallies]bool{}
		for t := range now {
			if ends(t) {
				return true
			}
			at := tallies{min(t.count, int32(m.Min)), t.counts}
			if n, met := fewest[at]; !met || t.count < n {
				fewest[at] = t.count
				step(next, t, m.More)
			}
		}
		now = next
	}
	return false
}
