package automaton

import "slices"

// productive says that an expression has a string, by what is known of the rules.
func (b *Builder) productive(e Expr) bool {
	k := b.nodes[e].key
	if b.nodes[e].regular {
		return !b.empty(e)
	}
	if s := b.nodes[e].state; s != 0 && b.settled {
		return s == 1
	}
	is := true
	switch k.kind {
	case kindSeq:
		is = b.productive(Expr(k.a)) && b.productive(Expr(k.b))
	case kindAlt:
		is = false
		for _, e := range b.lists[k.a] {
			if b.productive(e) {
				is = true
				break
			}
		}
	case kindRepeat:
		is = k.b == 0 || b.productive(Expr(k.a))
	case kindLexeme:
		is = b.productive(Expr(k.a))
	case kindRule:
		is = b.rules[k.a].productive
	case kindMembers:
		is = b.enough(k)
	}
	if b.settled {
		b.note(e, !is)
	}
	return is
}

// settle finds the rules that have strings: from none, as long as there are more.
func (b *Builder) settle() {
	for changed := true; changed; {
		changed = false
		for i := len(b.rules) - 1; i >= 0; i-- {
			if !b.rules[i].productive && b.productive(b.rules[i].body) {
				b.rules[i].productive = true
				changed = true
			}
		}
	}
	b.settled = true
}

// leftRecursive returns the name of a rule that can begin with itself.
func (b *Builder) leftRecursive() (string, bool) {
	nullable := b.nullableRules()
	const inside, done = 1, 2
	state := make([]int8, len(b.rules))
	var visit func(e Expr) (Expr, bool)
	visit = func(e Expr) (Expr, bool) { // the rule found, if any
		k := b.nodes[e].key
		if b.nodes[e].regular {
			return 0, false
		}
		switch k.kind {
		case kindSeq:
			if r, found := visit(Expr(k.a)); found {
				return r, true
			}
			if b.hasEmpty(Expr(k.a), nullable) {
				return visit(Expr(k.b))
			}
		case kindAlt:
			for _, e := range b.lists[k.a] {
				if r, found := visit(e); found {
					return r, true
				}
			}
		case kindRepeat:
			return visit(Expr(k.a))
		case kindRule:
			switch state[k.a] {
			case inside:
				return e, true
			case done:
				return 0, false
			}
			state[k.a] = inside
			if r, found := visit(b.rules[k.a].body); found {
				return r, true
			}
			state[k.a] = done
		case kindMembers:
			for _, v := range b.members[k.a].variants() {
				if r, found := visit(v.Text); found {
					return r, true
				}
			}
		}
		return 0, false
	}
	for i := range b.rules {
		if state[i] == done {
			continue
		}
		if r, found := visit(b.intern(key{kind: kindRule, a: int32(i)}, false, false, false)); found {
			return b.rules[b.nodes[r].a].name, true
		}
	}
	return "", false
}

// nullableRules finds the rules that have the empty string.
func (b *Builder) nullableRules() []bool {
	nullable := make([]bool, len(b.rules))
	for changed := true; changed; {
		changed = false
		for i := range b.rules {
			if !nullable[i] && b.hasEmpty(b.rules[i].body, nullable) {
				nullable[i], changed = true, true
			}
		}
	}
	return nullable
}

func (b *Builder) hasEmpty(e Expr, rules []bool) bool {
	n := &b.nodes[e]
	switch n.kind {
	case kindSeq:
		return b.hasEmpty(Expr(n.a), rules) && b.hasEmpty(Expr(n.b), rules)
	case kindAlt:
		for _, e := range b.lists[n.a] {
			if b.hasEmpty(e, rules) {
				return true
			}
		}
		return false
	case kindRepeat:
		return n.b == 0 || b.hasEmpty(Expr(n.a), rules)
	case kindRule:
		return rules[n.a]
	case kindMembers:
		m := &b.members[n.a]
		required := slices.ContainsFunc(m.List, func(m Member) bool { return m.Required })
		return m.Min == 0 && !required && m.satisfied(0)
	}
	return n.nullable
}
