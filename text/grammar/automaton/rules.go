package automaton

// rules are the named expressions of a grammar, which may refer to themselves.
type rules struct {
	*derivatives
	members *memberLists
	list    []rule
	settled bool // which rules are productive is known
}

type rule struct {
	name       string
	body       Expr
	productive bool // it has a string
}

func newRules(d *derivatives) *rules {
	b := &rules{derivatives: d}
	b.members = &memberLists{algebra: d.algebra, productive: b.productive}
	return b
}

// Rule makes a rule whose body Define sets.
func (b *rules) Rule(name string) Expr {
	b.list = append(b.list, rule{name: name, body: Fail})
	return b.expr(len(b.list) - 1)
}

func (b *rules) expr(i int) Expr {
	return b.intern(key{kind: kindRule, a: int32(i)}, false, false, false)
}

// Define sets the body of a rule.
func (b *rules) Define(r, body Expr) { b.list[b.nodes[r].a].body = body }

// productive reports whether an expression has a string, by what is known of the rules.
func (b *rules) productive(e Expr) bool {
	k := b.nodes[e].key
	if b.nodes[e].regular {
		return !b.empty(e)
	}
	if s := b.nodes[e].emptiness; s != emptinessUnknown && b.settled {
		return s == nonEmpty
	}
	isProductive := true
	switch k.kind {
	case kindSeq:
		isProductive = b.productive(Expr(k.a)) && b.productive(Expr(k.b))
	case kindAlt:
		isProductive = false
		for _, e := range b.lists[k.a] {
			if b.productive(e) {
				isProductive = true
				break
			}
		}
	case kindRepeat:
		isProductive = k.b == 0 || b.productive(Expr(k.a))
	case kindLexeme:
		isProductive = b.productive(Expr(k.a))
	case kindRule:
		isProductive = b.list[k.a].productive
	case kindMembers:
		isProductive = b.members.enough(k)
	}
	if b.settled {
		b.note(e, !isProductive)
	}
	return isProductive
}

// settle finds the productive rules: it starts from none and repeats until no more are found.
func (b *rules) settle() {
	for changed := true; changed; {
		changed = false
		for i := len(b.list) - 1; i >= 0; i-- {
			if !b.list[i].productive && b.productive(b.list[i].body) {
				b.list[i].productive = true
				changed = true
			}
		}
	}
	b.settled = true
}

// leftRecursive returns the name of a rule that can begin with itself.
func (b *rules) leftRecursive() (string, bool) {
	nullable := b.nullableRules()
	const inside, done = 1, 2
	state := make([]int8, len(b.list))
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
			if r, found := visit(b.list[k.a].body); found {
				return r, true
			}
			state[k.a] = done
		case kindMembers:
			for _, v := range b.members.list[k.a].variants() {
				if r, found := visit(v.Text); found {
					return r, true
				}
			}
		}
		return 0, false
	}
	for i := range b.list {
		if state[i] == done {
			continue
		}
		if r, found := visit(b.expr(i)); found {
			return b.list[b.nodes[r].a].name, true
		}
	}
	return "", false
}

// nullableRules returns for each rule whether it has the empty string.
func (b *rules) nullableRules() []bool {
	nullable := make([]bool, len(b.list))
	for changed := true; changed; {
		changed = false
		for i := range b.list {
			if !nullable[i] && b.hasEmpty(b.list[i].body, nullable) {
				nullable[i], changed = true, true
			}
		}
	}
	return nullable
}

func (b *rules) hasEmpty(e Expr, rules []bool) bool {
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
		return b.members.mayBeNone(n.key)
	}
	return n.nullable
}
