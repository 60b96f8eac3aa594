package automaton

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"
)

// State is a state of an Automaton. States are numbered from 0 as they are first met.
type State int32

// Dead is the state behind a byte that can't come.
const Dead State = -1

// cont is what is still to come: an expression and what follows it, or the end (cont 0). Where leaf is set the
// expression is regular and stepped through by its arcs.
type cont struct {
	head Expr
	leaf bool
	tail int32
}

// closure is the leaves that a cont can begin with.
type closure struct {
	leaves  []int32
	accepts bool // there may be nothing more
	made    bool
}

// Automaton is a grammar as a deterministic automaton over bytes. A state is the set of all that may still come; the
// rest of nested rules is a stack that states share. States are made when they are first asked for. It serves one
// goroutine at a time.
type Automaton struct {
	b        *Builder
	conts    []cont
	contIDs  map[cont]int32
	closures []closure
	states   []state
	stateIDs map[string]State
	start    State
	mark     []int32 // of conts: the round in which a closure has met them
	round    int32
	scratch  []byte
	compiled int // bytes that were spent before the first byte
}

type state struct {
	leaves  []int32
	accepts bool
	loose   bool // see Settle
	row     *[256]State
}

// New makes the automaton of an expression. It is an error where a rule begins with itself, or where no text can be
// complete. The builder belongs to the automaton from then on.
func New(b *Builder, e Expr) (*Automaton, error) {
	if rule, is := b.leftRecursive(); is {
		return nil, fmt.Errorf("rule %s begins with itself: write its recursion at the end", rule)
	}
	b.settle()
	if !b.productive(e) {
		return nil, fmt.Errorf("no text can be complete")
	}
	a := &Automaton{b: b, contIDs: map[cont]int32{}, stateIDs: map[string]State{},
		conts: []cont{{}}, closures: []closure{{accepts: true, made: true}}, mark: []int32{0}}
	a.start = a.state([]int32{a.push(e, 0)})
	a.compiled = b.spent
	return a, b.err
}

// push is an expression in front of a cont.
func (a *Automaton) push(e Expr, tail int32) int32 {
	for {
		switch n := &a.b.nodes[e]; n.kind {
		case kindEmpty:
			return tail
		case kindSeq:
			if n.regular { // only leaves are
				break
			}
			tail = a.push(Expr(n.b), tail)
			e = Expr(n.a)
			continue
		}
		return a.cont(cont{head: e, tail: tail})
	}
}

// leaf is a regular expression in front of a cont, to be stepped through.
func (a *Automaton) leaf(e Expr, tail int32) int32 {
	if e == Empty {
		return tail
	}
	return a.cont(cont{e, true, tail})
}

func (a *Automaton) cont(c cont) int32 {
	if id, ok := a.contIDs[c]; ok {
		return id
	}
	id := int32(len(a.conts))
	a.b.spend(150) // a cont, and its place in contIDs
	a.conts = append(a.conts, c)
	a.closures = append(a.closures, closure{})
	a.mark = append(a.mark, 0)
	a.contIDs[c] = id
	return id
}

// close makes the closure of a cont.
func (a *Automaton) close(of int32) closure {
	if c := a.closures[of]; c.made {
		return c
	}
	a.round++
	c := closure{made: true}
	todo := []int32{of}
	for len(todo) > 0 && a.b.err == nil {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if a.mark[id] == a.round {
			continue
		}
		a.mark[id] = a.round
		if known := a.closures[id]; known.made {
			c.leaves = append(c.leaves, known.leaves...)
			c.accepts = c.accepts || known.accepts
			continue
		}
		at := a.conts[id]
		if at.leaf {
			c.leaves = append(c.leaves, id)
			if a.b.nodes[at.head].nullable {
				todo = append(todo, at.tail)
			}
			continue
		}
		todo = a.open(at, todo)
	}
	slices.Sort(c.leaves)
	c.leaves = slices.Compact(c.leaves)
	a.closures[of] = c
	a.b.spend(4 * len(c.leaves))
	return c
}

// open appends what the head of a cont begins with.
func (a *Automaton) open(at cont, todo []int32) []int32 {
	b := a.b
	k := b.nodes[at.head].key
	if !b.productive(at.head) {
		return todo
	}
	switch k.kind {
	case kindSeq:
		return append(todo, a.push(Expr(k.a), a.push(Expr(k.b), at.tail)))
	case kindAlt:
		for _, e := range b.lists[k.a] {
			todo = append(todo, a.push(e, at.tail))
		}
		return todo
	case kindRepeat:
		if k.b == 0 {
			todo = append(todo, at.tail)
		}
		hi := int(k.c)
		if hi != Unlimited {
			hi--
		}
		if b.productive(Expr(k.a)) {
			rest := a.push(b.Repeat(Expr(k.a), max(int(k.b)-1, 0), hi), at.tail)
			todo = append(todo, a.push(Expr(k.a), rest))
		}
		return todo
	case kindRule:
		return append(todo, a.push(b.rules[k.a].body, at.tail))
	case kindMembers:
		next, none := b.expand(k)
		for _, e := range next {
			todo = append(todo, a.push(e, at.tail))
		}
		if none {
			todo = append(todo, at.tail)
		}
		return todo
	case kindLexeme:
		return append(todo, a.leaf(Expr(k.a), at.tail))
	}
	return append(todo, a.leaf(at.head, at.tail))
}

// state is the state of some conts.
func (a *Automaton) state(conts []int32) State {
	var leaves []int32
	accepts := false
	for _, id := range conts {
		c := a.close(id)
		accepts = accepts || c.accepts
		leaves = append(leaves, c.leaves...)
	}
	if len(conts) > 1 {
		slices.Sort(leaves)
		leaves = a.join(slices.Compact(leaves))
	} else {
		leaves = a.join(leaves)
	}
	if len(leaves) == 0 && !accepts || a.b.err != nil {
		return Dead
	}
	s := a.scratch[:0]
	for _, id := range leaves {
		s = binary.LittleEndian.AppendUint32(s, uint32(id))
	}
	if accepts {
		s = append(s, 1)
	}
	a.scratch = s
	if id, ok := a.stateIDs[string(s)]; ok {
		return id
	}
	id := State(len(a.states))
	loose := slices.ContainsFunc(leaves, func(id int32) bool { return a.b.nodes[a.conts[id].head].loose })
	a.states = append(a.states, state{leaves: leaves, accepts: accepts, loose: loose})
	a.stateIDs[string(s)] = id
	a.b.spend(150 + 8*len(leaves))
	return id
}

// join makes one leaf of those that the same follows: fewer states are told apart then.
func (a *Automaton) join(leaves []int32) []int32 {
	same := false
	tails := map[int32]int{}
	if len(leaves) > 1 {
		for _, id := range leaves {
			t := a.conts[id].tail
			if a.b.nodes[a.conts[id].head].apart { // Settle looks for it
				continue
			}
			tails[t]++
			same = same || tails[t] > 1
		}
	}
	if !same {
		return leaves
	}
	var joined []int32
	for _, id := range leaves {
		t := a.conts[id].tail
		if tails[t] == 1 || a.b.nodes[a.conts[id].head].apart {
			joined = append(joined, id)
			continue
		}
		if tails[t] == 0 {
			continue // joined already
		}
		var heads []Expr
		for _, other := range leaves {
			if a.conts[other].tail == t && !a.b.nodes[a.conts[other].head].apart {
				heads = append(heads, a.conts[other].head)
			}
		}
		tails[t] = 0
		joined = append(joined, a.leaf(a.b.Alt(heads...), t))
	}
	slices.Sort(joined)
	return joined
}

// Start is the state before the first byte.
func (a *Automaton) Start() State { return a.start }

// States counts the states so far.
func (a *Automaton) States() int { return len(a.states) }

// Accepts says that a text that leads to a state is complete.
func (a *Automaton) Accepts(s State) bool { return s >= 0 && a.states[s].accepts }

// Next is the state behind one more byte.
func (a *Automaton) Next(s State, c byte) State {
	if s < 0 {
		return Dead
	}
	return a.Row(s)[c]
}

// Memory is how much an automaton has taken.
type Memory struct {
	Bytes int
	Share float64 // of what it may take for its states, 1 at most where Err is nil
	// Err is not nil once the grammar has turned out to need more than an automaton may take. What was asked of the
	// automaton since is not to be relied on: no byte can come in the states from which none was asked for before.
	Err error
}

// Memory says how much the automaton has taken.
func (a *Automaton) Memory() Memory {
	return Memory{Bytes: a.b.spent, Share: float64(a.b.spent-a.compiled) / float64(max(1, a.b.most-a.compiled)),
		Err: a.b.err}
}

// Bound lets the automaton take so many bytes for its states, in place of what it may take otherwise.
func (a *Automaton) Bound(bytes int) { a.b.most = a.compiled + bytes }

// none is the row of a state from which no byte leads on.
var none = func() (row [256]State) {
	for i := range row {
		row[i] = Dead
	}
	return row
}()

// Row has the states behind each byte. It stays the automaton's.
func (a *Automaton) Row(s State) *[256]State {
	if row := a.states[s].row; row != nil {
		return row
	}
	if a.b.err != nil {
		return &none
	}
	row := a.makeRow(s)
	if a.b.spend(int(unsafe.Sizeof(*row))); a.b.err != nil {
		return &none
	}
	a.states[s].row = row
	return row
}

func (a *Automaton) makeRow(s State) *[256]State {
	leaves := a.states[s].leaves
	lists := make([][]arc, len(leaves))
	for i, id := range leaves {
		lists[i] = a.b.arcsOf(a.conts[id].head)
	}
	var row [256]State
	ends := cuts(lists)
	at := make([]int, len(lists))
	var to, last []int32
	lastState := Dead
	for i := 0; i+1 < len(ends); i++ {
		lo, hi := ends[i], ends[i+1]-1
		to = to[:0]
		for j, arcs := range lists {
			for at[j] < len(arcs) && int(arcs[at[j]].hi) < lo {
				at[j]++
			}
			if at[j] < len(arcs) && int(arcs[at[j]].lo) <= lo && !a.b.empty(arcs[at[j]].to) {
				to = append(to, a.leaf(arcs[at[j]].to, a.conts[leaves[j]].tail))
			}
		}
		next := Dead
		if len(to) > 0 {
			if next = lastState; !slices.Equal(to, last) {
				next = a.state(to)
			}
			last, lastState = append(last[:0], to...), next
		}
		for c := lo; c <= hi; c++ {
			row[c] = next
		}
	}
	return &row
}
