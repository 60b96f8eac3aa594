package automaton

import "slices"

// Members are texts with a separator between two, such as the members of a JSON object or the items of an array. Some
// of them are optional. The members of the list come first, in their order, and further members follow, unless Order
// differs.
type Members struct {
	List      []Member
	More      []Variant // what each further member may be; empty if there are no further members
	Separator Expr
	Min, Max  int // the number of members; Max may be Unlimited
	Order     Order
	Counters  []Counter // at most 32
	// Fresh makes Min count a member with counters only if it raises one of them. Max is then Unlimited.
	Fresh bool
}

// Order is the order of Members.
type Order uint8

// The orders.
const (
	ListOrder Order = iota // the order of the list; any optional member may be left out
	AnyOrder               // any order, also of the further members
	AtPlaces               // the order of the list; only the last members may be left out
)

// Member is a member of a list. It comes at most once.
type Member struct {
	Variants []Variant
	Required bool
}

// Variant is a text that a member may have.
type Variant struct {
	Text   Expr
	Counts uint32 // bits: the counters that it raises by 1
	Unless uint32 // bits: the counters that must be 0 before it
}

// One is the variants of a member that has one text and no counters.
func One(text Expr) []Variant { return []Variant{{Text: text}} }

// Counter bounds how many of the members that raise it there are. Max may be Unlimited.
type Counter struct{ Min, Max int }

// last is the highest value of a counter; it stays there when it is raised further.
func (c Counter) last() int32 {
	if c.Max != Unlimited {
		return int32(c.Max)
	}
	return int32(max(c.Min, 1))
}

// maxCounts bounds the combinations of counters.
const maxCounts = 1 << 16

// memberLists are the expressions of members, each a state of their progress.
type memberLists struct {
	*algebra
	list    []Members
	seen    []string // sets of members that have come, as bits, for members in any order
	seenIDs map[string]int32
	// productive reports whether the text of a variant can be completed: members may contain rules that contain them.
	productive func(Expr) bool
}

// first is the members in front of the first.
func (b *memberLists) first(m Members) Expr {
	b.list = append(b.list, m)
	if m.combinations() > maxCounts {
		b.err = errTooMany
	}
	position := int32(0)
	if m.Order == AnyOrder {
		position = b.seenID(string(make([]byte, (len(m.List)+7)/8)))
	}
	return b.from(int32(len(b.list)-1), position, 0, 0)
}

// variants returns the variants of all members.
func (m *Members) variants() (list []Variant) {
	for _, member := range m.List {
		list = append(list, member.Variants...)
	}
	return append(list, m.More...)
}

// combinations returns the number of combinations of the counters, or more than maxCounts.
func (m *Members) combinations() int {
	n := 1
	for _, c := range m.Counters {
		if n *= int(c.last()) + 1; n > maxCounts {
			break
		}
	}
	return n
}

// counted returns the counters after a variant, and whether they allow it.
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

// tally returns the number of members after a variant that changes the counters from before to after.
func (m *Members) tally(count, before, after int32, v Variant) int32 {
	if m.Fresh && v.Counts != 0 && before == after {
		return count
	}
	return count + 1
}

// satisfied reports whether each counter has reached its minimum.
func (m *Members) satisfied(counts int32) bool {
	for _, c := range m.Counters {
		if int(counts%(c.last()+1)) < c.Min {
			return false
		}
		counts /= c.last() + 1
	}
	return true
}

// seenID numbers a set of members that have come in any order.
func (b *memberLists) seenID(set string) int32 {
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

// gone reports whether member i can't come any more: it or a later one has come.
func (b *memberLists) gone(m *Members, position int32, i int) bool {
	if m.Order == AnyOrder {
		return b.seen[position][i>>3]>>(i&7)&1 != 0
	}
	return i < int(position)
}

// with returns the position after member i.
func (b *memberLists) with(m *Members, position int32, i int) int32 {
	if m.Order != AnyOrder {
		return int32(i + 1)
	}
	set := []byte(b.seen[position])
	set[i>>3] |= 1 << (i & 7)
	return b.seenID(string(set))
}

// withMore returns the position after a further member.
func (m *Members) withMore(position int32) int32 {
	if m.Order != AnyOrder {
		return int32(len(m.List))
	}
	return position
}

// from is the members that are left at a place, with so many before them. state is what the counters say, and in
// its lowest bit whether there is one before.
func (b *memberLists) from(list, position, count, state int32) Expr {
	if m := &b.list[list]; m.Max == Unlimited {
		count = min(count, int32(m.Min)) // nothing depends on more
	}
	return b.intern(key{kindMembers, list, position, count, state}, false, false, false)
}

// expand returns the texts that may come next, each followed by the rest of the members, and whether the members may
// end here.
func (b *memberLists) expand(k key) (next []Expr, none bool) {
	m := b.list[k.a]
	count, counts := int(k.c), k.d>>1
	none = count >= m.Min && m.satisfied(counts) && b.required(&m, k.b) == 0
	if m.Max != Unlimited && count >= m.Max {
		return nil, none
	}
	take := func(list []Variant, position int32) {
		for _, v := range list {
			after, ok := m.counted(counts, v)
			if !ok || !b.productive(v.Text) {
				continue
			}
			if rest := b.from(k.a, position, m.tally(k.c, counts, after, v), after<<1|1); b.productive(rest) {
				next = append(next, b.after(k, v.Text, rest))
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

func (b *memberLists) after(k key, text, rest Expr) Expr {
	if k.d&1 == 0 {
		return b.seq(text, rest)
	}
	return b.Seq(b.list[k.a].Separator, text, rest)
}

// canBe reports whether some variant has a text.
func (b *memberLists) canBe(list []Variant) bool {
	for _, v := range list {
		if b.productive(v.Text) {
			return true
		}
	}
	return false
}

// required counts the required members that are left. It is -1 if one of them has no text.
func (b *memberLists) required(m *Members, position int32) int {
	n := 0
	for i, member := range m.List {
		if member.Required && !b.gone(m, position, i) {
			if !b.canBe(member.Variants) {
				return -1
			}
			n++
		}
	}
	return n
}

// enough reports whether the members can be completed.
func (b *memberLists) enough(k key) bool {
	m := &b.list[k.a]
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

// mayBeNone reports whether members that have not started may be none.
func (b *memberLists) mayBeNone(k key) bool {
	m := &b.list[k.a]
	required := slices.ContainsFunc(m.List, func(m Member) bool { return m.Required })
	return m.Min == 0 && !required && m.satisfied(0)
}

// tallies is the number of members so far, and their counters.
type tallies struct{ count, counts int32 }

// completes is enough for members with counters. It tries the members that are left in the order of the list, with all
// tallies that the previous ones can lead to, and then further members. The order makes no difference to the tallies.
func (b *memberLists) completes(m *Members, position int32, from tallies) bool {
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
		if b.gone(m, position, i) {
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
	// After Min members only the counters matter, and how few members have reached them.
	fewest := map[tallies]int32{}
	for len(now) > 0 {
		next := map[tallies]bool{}
		for t := range now {
			if ends(t) {
				return true
			}
			capped := tallies{min(t.count, int32(m.Min)), t.counts}
			if n, met := fewest[capped]; !met || t.count < n {
				fewest[capped] = t.count
				step(next, t, m.More)
			}
		}
		now = next
	}
	return false
}
