package masking

import (
	"container/heap"
	"math"
)

// Bounds of how far ahead of a row the arena looks: in states, and in how likely a state is to be met.
const (
	horizon  = 256
	unlikely = 1e-3
)

// search is a search of the states that rows may come to, the likeliest first.
type search struct {
	queue candidates
	seen  map[At]bool
	room  int // states that may still be looked at
}

// candidate is a state that a row may come to.
type candidate struct {
	At
	likely float32
}

type candidates []candidate

func (c candidates) Len() int           { return len(c) }
func (c candidates) Less(i, j int) bool { return c[i].likely > c[j].likely }
func (c candidates) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)        { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// Ahead fills states that the rows placed last may come to, the likeliest first, until there are none, or no room, or a
// call takes no more, or stop says so. It returns how many it filled.
func (a *Arena) Ahead(stop func() bool) (filled int) {
	a.mu.Lock()
	a.lookAhead()
	a.mu.Unlock()
	for !stop() {
		a.mu.Lock()
		isNew, more := a.step()
		a.mu.Unlock()
		if !more {
			break
		}
		if isNew {
			filled++
		}
	}
	return filled
}

// lookAhead begins a search at the rows placed last.
func (a *Arena) lookAhead() {
	a.soon, a.ahead = nil, search{seen: map[At]bool{}}
	for _, row := range a.present {
		a.meet(candidate{a.of[row], 1})
	}
	a.ahead.room = min(len(a.ahead.queue)*horizon, a.States/2)
}

// meet notes a state that rows may come to.
func (a *Arena) meet(c candidate) {
	if !a.ahead.seen[c.At] {
		a.ahead.seen[c.At] = true
		heap.Push(&a.ahead.queue, c)
	}
}

// step takes the search to the next state, and fills it where it is not. more is false at the end of the search.
func (a *Arena) step() (isNew, more bool) {
	s := &a.ahead
	if len(s.queue) == 0 || s.room == 0 || len(a.dirtyStates) >= a.PatchStates {
		return false, false
	}
	s.room--
	c := heap.Pop(&s.queue).(candidate)
	row, ok := a.at[c.At]
	if isNew = !ok; isNew {
		if row, ok = a.place(c.At); !ok {
			return false, false
		}
	}
	a.soon = append(a.soon, row)
	for _, f := range a.follow[row] {
		if likely := c.likely * f.part; likely >= unlikely {
			a.meet(candidate{At{c.Machine, f.state}, likely})
		}
	}
	return isNew, true
}

// weight estimates how likely a state is to follow another, by the symbols that lead there. Most text is ASCII. A state
// that many symbols lead to is likelier than one of few, but not by as much: what ends a text is a single one.
type weight struct{ ascii, others int }

func (w *weight) add(symbol byte) {
	if symbol < 0x80 {
		w.ascii++
	} else {
		w.others++
	}
}

func (w *weight) value() float32 {
	return float32(math.Log2(float64(1+w.ascii)) + math.Log2(float64(1+w.others))/16)
}
