package masking

import "math"

// search is a search of the states that rows may reach, the likeliest first.
//
// Each row starts with a likelihood of 1 in its state, which is passed on to the states that follow. The likelihoods of
// all ways to a state add up: a text may end after any of its characters, and continues the same way after each of
// them.
type search struct {
	number int
	queue  candidates
	room   int // states that may still be looked at
}

// candidate is a state that a row may reach.
type candidate struct {
	position
	likely float32
}

// candidates are a queue, the likeliest first, but for small differences.
type candidates struct {
	levels [64][]candidate
	best   int // no level before it has any
}

// level returns the level of a likelihood: there are eight for each factor of 2.
func level(likely float32) int {
	return min(max(0, int(math.Float32bits(1)>>20)-int(math.Float32bits(likely)>>20)), len(candidates{}.levels)-1)
}

func (c *candidates) push(pos position, likely float32) {
	l := level(likely)
	c.levels[l] = append(c.levels[l], candidate{pos, likely})
	c.best = min(c.best, l)
}

func (c *candidates) pop() (best candidate, ok bool) {
	for ; c.best < len(c.levels); c.best++ {
		if l := c.levels[c.best]; len(l) > 0 {
			best, c.levels[c.best] = l[len(l)-1], l[:len(l)-1]
			return best, true
		}
	}
	return candidate{}, false
}

// reset empties the queue.
func (c *candidates) reset() {
	for i := range c.levels {
		c.levels[i] = c.levels[i][:0]
	}
	c.best = 0
}
