package automaton

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"
)

// State is a state of an Automaton. States are numbered from 0 in the order in which they are first reached.
type State int32

// Dead is the state after a byte that is not allowed.
const Dead State = -1

// cont is a continuation: an expression and what follows it, or the end (cont 0). If leaf is set the expression is
// regular and the automaton steps through it by its arcs.
type cont struct {
	head Expr
	leaf bool
	tail int32
}

// closure is the leaves that a cont can begin with.
type closure struct {
	leaves  []int32
	accepts bool // the cont may be empty
	made    bool
}

// Automaton is a grammar as a deterministic automaton over bytes. A state is the set of all continuations; the rests of
// nested rules are a stack that states share. States are made when they are first asked for. It serves one goroutine at
// a time.
type Automaton struct {
	b        *Builder
	conts    []cont
	contIDs  map[cont]int32
	closures []closure
	states   []state
	stateIDs map[string]State
	start    State
	mark     []int32 // by cont: the last round of close that has visited it
	round    int32
	scratch  []byte
	compiled int // bytes that were spent on the grammar before its first state
}

type state struct {
	leaves  []int32
	accepts bool
	loose   bool // see Settle
	row     *[256]State
}

// New makes the automaton of an expression. It fails if a rule begins with itself, or if no text can be complete. The
// builder belongs to the automaton from then on.
func New(b *Builder, e Expr) (*Automaton, error) {
	if rule, found := b.leftRecursive(); found {
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

// push puts an expression in front of a cont.
func (a *Automaton) push(e Expr, tail int32) int32 {
	for {
		switch n := &a.b.nodes[e]; n.kind {
		case kindEmpty:
			return tail
		case kindSeq:
			if n.regular { // the whole is stepped through as a leaf
				break
			}
			tail = a.push(Expr(n.b), tail)
			e = Expr(n.a)
			continue
		}
		return a.cont(cont{head: e, tail: tail})
	}
}

// leaf puts a regular expression that is to be stepped through in front of a cont.
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
	a.b.spend(150) // a cont and its entry in contIDs
	a.conts = append(a.conts, c)
	a.closures = append(a.closures, closure{})
	a.mark = append(a.mark, 0)
	a.contIDs[c] = id
	return id
}

// close makes the closure of a cont.
func (a *Automaton) close(contID int32) closure {
	if c := a.closures[contID]; c.made {
		return c
	}
	a.round++
	c := closure{made: true}
	todo := []int32{contID}
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
		current := a.conts[id]
		if current.leaf {
			c.leaves = append(c.leaves, id)
			if a.b.nodes[current.head].nullable {
				todo = append(todo, current.tail)
			}
			continue
		}
		todo = a.open(current, todo)
	}
	slices.Sort(c.leaves)
	c.leaves = slices.Compact(c.leaves)
	a.closures[contID] = c
	a.b.spend(4 * len(c.leaves))
	return c
}

// open appends what the head of a cont begins with.
func (a *Automaton) open(current cont, todo []int32) []int32 {
	b := a.b
	k := b.nodes[current.head].key
	if !b.productive(current.head) {
		return todo
	}
	switch k.kind {
	case kindSeq:
		return append(todo, a.push(Expr(k.a), a.push(Expr(k.b), current.tail)))
	case kindAlt:
		for _, e := range b.lists[k.a] {
			todo = append(todo, a.push(e, current.tail))
		}
		return todo
	case kindRepeat:
		if k.b == 0 {
			todo = append(todo, current.tail)
		}
		hi := int(k.c)
		if hi != Unlimited {
			hi--
		}
		if b.productive(Expr(k.a)) {
			rest := a.push(b.Repeat(Expr(k.a), max(int(k.b)-1, 0), hi), current.tail)
			todo = append(todo, a.push(Expr(k.a), rest))
		}
		return todo
	case kindRule:
		return append(todo, a.push(b.rules.list[k.a].body, current.tail))
	case kindMembers:
		next, none := b.members.expand(k)
		for _, e := range next {
			todo = append(todo, a.push(e, current.tail))
		}
		if none {
			todo = append(todo, current.tail)
		}
		return todo
	case kindLexeme:
		return append(todo, a.leaf(Expr(k.a), current.tail))
	}
	return append(todo, a.leaf(current.head, current.tail))
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

// join unites leaves that are followed by the same, so that there are fewer states.
func (a *Automaton) join(leaves []int32) []int32 {
	same := false
	tails := map[int32]int{}
	if len(leaves) > 1 {
		for _, id := range leaves {
			t := a.conts[id].tail
			if a.b.nodes[a.conts[id].head].apart { // Settle needs it as it is
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

// Accepts reports whether a text that leads to a state is complete.
func (a *Automaton) Accepts(s State) bool { return s >= 0 && a.states[s].accepts }

// Next is the state after one more byte.
func (a *Automaton) Next(s State, c byte) State {
	if s < 0 {
		return Dead
	}
	return a.Row(s)[c]
}

// Memory is how much an automaton has taken.
type Memory struct {
	Bytes int
	Share float64 // the used share of the limit for states; at most 1 if Err is nil
	// Err is not nil once the grammar has turned out to need more than an automaton may take. The automaton's answers
	// since then are not reliable: states whose row was not made before allow no byte.
	Err error
}

// Memory returns how much the automaton has taken.
func (a *Automaton) Memory() Memory {
	return Memory{Bytes: a.b.spent, Share: float64(a.b.spent-a.compiled) / float64(max(1, a.b.most-a.compiled)),
		Err: a.b.err}
}

// Bound limits the automaton to so many bytes for its states, instead of the default.
func (a *Automaton) Bound(bytes int) { a.b.most = a.compiled + bytes }

// none is the row of a state that allows no byte.
var none = func() (row [256]State) {
	for i := range row {
		row[i] = Dead
	}
	return row
}()

// Row returns the states after each byte. The caller must not change it.
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
	positions := make([]int, len(lists))
	var to, last []int32
	lastState := Dead
	for i := 0; i+1 < len(ends); i++ {
		lo, hi := ends[i], ends[i+1]-1
		to = to[:0]
		for j, arcs := range lists {
			for positions[j] < len(arcs) && int(arcs[positions[j]].hi) < lo {
				positions[j]++
			}
			if positions[j] < len(arcs) && int(arcs[positions[j]].lo) <= lo && !a.b.empty(arcs[positions[j]].to) {
				to = append(to, a.leaf(arcs[positions[j]].to, a.conts[leaves[j]].tail))
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

// Loose reports whether a state must be settled before tokens may follow it.
func (a *Automaton) Loose(s State) bool { return s >= 0 && a.states[s].loose }

// Settle returns the state after a text whose loose state Next has reached. A token may pass through loose states, but
// before the next token the state must be settled.
func (a *Automaton) Settle(s State, text []byte) State {
	if !a.Loose(s) {
		return s
	}
	item := lastScalar(text)
	var conts []int32
	for _, id := range a.states[s].leaves {
		current := a.conts[id]
		if k := a.b.nodes[current.head].key; k.kind == kindApart && k.c == noText && !a.b.aparts.earlier[k.b].unknown {
			id = a.leaf(a.b.aparts.item(k.a, k.b, a.b.aparts.textID(item), Expr(k.d)), current.tail)
		}
		conts = append(conts, id)
	}
	return a.state(conts)
}

// lastScalar returns the JSON string, number or word that a text ends with.
func lastScalar(text []byte) string {
	end := len(text) - 1
	if end < 0 {
		return ""
	}
	begin := end
	if text[end] != '"' {
		for begin > 0 && bytes.IndexByte([]byte(" \t\r\n,[:{"), text[begin-1]) < 0 {
			begin--
		}
		return string(text[begin:])
	}
	for begin--; begin > 0; begin-- {
		slashes := 0
		for begin-slashes > 0 && text[begin-slashes-1] == '\\' {
			slashes++
		}
		if text[begin] == '"' && slashes%2 == 0 {
			break
		}
	}
	return string(text[max(0, begin):])
}
