package automaton

// Members are texts with a separator between two, some of which may be left out. They come in their order and further
// ones behind them, or all in any order. The members of a JSON object are such.
type Members struct {
	List      []Member
	More      Expr // one of the further members; Fail where there may be none
	Separator Expr
	Min, Max  int // how many there are; Max may be Unlimited
	AnyOrder  bool
}

// Member is one of Members. It comes once at most.
type Member struct {
	Text     Expr
	Required bool
}

// Members makes an expression of members.
func (b *Builder) Members(m Members) Expr {
	b.members = append(b.members, m)
	at := int32(0)
	if m.AnyOrder {
		at = b.seenID(string(make([]byte, (len(m.List)+7)/8)))
	}
	return b.membersFrom(int32(len(b.members)-1), at, 0, 0)
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
	if m.AnyOrder {
		return b.seen[at][i>>3]>>(i&7)&1 != 0
	}
	return i < int(at)
}

// with is where members are behind member i.
func (b *Builder) with(m *Members, at int32, i int) int32 {
	if !m.AnyOrder {
		return int32(i + 1)
	}
	set := []byte(b.seen[at])
	set[i>>3] |= 1 << (i & 7)
	return b.seenID(string(set))
}

// membersFrom is the members that are left at a place, with so many before them.
func (b *Builder) membersFrom(of, at, count, behind int32) Expr {
	m := &b.members[of]
	if m.Max == Unlimited {
		count = min(count, int32(m.Min)) // nothing depends on more
	}
	return b.intern(key{kindMembers, of, at, count, behind}, false, false, false)
}

// expand returns what members begin with: for each one that may be next the text and what follows it; and whether there
// may be none.
func (b *Builder) expand(k key) (next []Expr, none bool) {
	m := b.members[k.a]
	count := int(k.c)
	required := b.required(&m, k.b) > 0
	if m.Max != Unlimited && count >= m.Max {
		return nil, !required
	}
	for i, member := range m.List {
		if b.gone(&m, k.b, i) {
			continue
		}
		if b.productive(member.Text) {
			at := b.with(&m, k.b, i)
			if b.enough(&m, at, count+1) {
				next = append(next, b.behind(k, member.Text, b.membersFrom(k.a, at, k.c+1, 1)))
			}
		}
		if member.Required && !m.AnyOrder {
			return next, false
		}
	}
	if b.productive(m.More) {
		at := k.b
		if !m.AnyOrder {
			at = int32(len(m.List))
		}
		if b.enough(&m, at, count+1) {
			next = append(next, b.behind(k, m.More, b.membersFrom(k.a, at, k.c+1, 1)))
		}
	}
	return next, count >= m.Min && !required
}

func (b *Builder) behind(k key, text, rest Expr) Expr {
	if k.d == 0 {
		return b.seq(text, rest)
	}
	return b.Seq(b.members[k.a].Separator, text, rest)
}

// required counts the required members that are left; -1 where one of them can't be.
func (b *Builder) required(m *Members, at int32) int {
	n := 0
	for i, member := range m.List {
		if member.Required && !b.gone(m, at, i) {
			if !b.productive(member.Text) {
				return -1
			}
			n++
		}
	}
	return n
}

// enough says that members can be brought to an end, with so many before them.
func (b *Builder) enough(m *Members, at int32, count int) bool {
	required := b.required(m, at)
	if required < 0 || m.Max != Unlimited && count+required > m.Max {
		return false
	}
	if count+required >= m.Min || b.productive(m.More) {
		return true
	}
	for i, member := range m.List {
		if !b.gone(m, at, i) && b.productive(member.Text) {
			count++
		}
	}
	return count >= m.Min
}
