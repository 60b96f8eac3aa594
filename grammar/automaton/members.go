package automaton

// Members are texts in a fixed order, some of which may be left out, with a separator between two; behind them any
// number of further ones. The members of a JSON object are such.
type Members struct {
	List      []Member
	More      Expr // one of the further members; Fail where there may be none
	Separator Expr
	Min, Max  int // how many there are; Max may be Unlimited
}

// Member is one of Members.
type Member struct {
	Text     Expr
	Required bool
}

// Members makes an expression of members.
func (b *Builder) Members(m Members) Expr {
	b.members = append(b.members, m)
	return b.membersFrom(int32(len(b.members)-1), 0, 0, 0)
}

// membersFrom is the members from one on, with so many before them.
func (b *Builder) membersFrom(of, from, count, behind int32) Expr {
	m := &b.members[of]
	if m.Max == Unlimited {
		count = min(count, int32(m.Min)) // nothing depends on more
	}
	return b.intern(key{kindMembers, of, from, count, behind}, false, false, false)
}

// expand returns what members begin with: for each one that may be next the text and what follows it; and whether there
// may be none.
func (b *Builder) expand(k key) (next []Expr, none bool) {
	m := b.members[k.a]
	count := int(k.c)
	if m.Max == Unlimited || count < m.Max {
		for i := int(k.b); i < len(m.List); i++ {
			member := m.List[i]
			if b.productive(member.Text) && b.enough(k.a, i+1, count+1) {
				next = append(next, b.behind(k, member.Text, b.membersFrom(k.a, int32(i+1), k.c+1, 1)))
			}
			if member.Required {
				return next, false
			}
		}
		if b.productive(m.More) && b.enough(k.a, len(m.List), count+1) {
			next = append(next, b.behind(k, m.More, b.membersFrom(k.a, int32(len(m.List)), k.c+1, 1)))
		}
	} else if b.required(k.a, int(k.b)) > 0 {
		return nil, false
	}
	return next, count >= m.Min
}

func (b *Builder) behind(k key, text, rest Expr) Expr {
	if k.d == 0 {
		return b.seq(text, rest)
	}
	return b.Seq(b.members[k.a].Separator, text, rest)
}

// required counts the required members from one on; -1 where one of them can't be.
func (b *Builder) required(of int32, from int) int {
	n := 0
	for _, member := range b.members[of].List[from:] {
		if member.Required {
			if !b.productive(member.Text) {
				return -1
			}
			n++
		}
	}
	return n
}

// enough says that members can be brought to an end from one on, with so many before them.
func (b *Builder) enough(of int32, from, count int) bool {
	m := &b.members[of]
	required := b.required(of, from)
	if required < 0 || m.Max != Unlimited && count+required > m.Max {
		return false
	}
	if count+required >= m.Min || b.productive(m.More) {
		return true
	}
	for _, member := range m.List[from:] {
		if b.productive(member.Text) {
			count++
		}
	}
	return count >= m.Min
}
