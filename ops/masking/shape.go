package masking

import "math"

// groups tell which symbols lead from a state to the same state: the number of each symbol's group, from 1, and 0 if
// the symbol is not allowed.
type groups [Width]uint16

// shape is shared by states with equal groups. Automata have many such states: states within a text, and states that
// allow space. A shape counts the symbols that followed, in any automaton, to predict what will follow: see [search].
type shape struct {
	groups
	weights []float32 // of groups: the symbols that were read, and a guess
	read    int
}

// Bounds of what a shape remembers: a guess counts as much as so many symbols; when it has read mostRead it counts all
// half as much.
const (
	guessed  = 4
	mostRead = 1 << 12
)

// mostShapes bounds the shapes that are remembered for states of other automata.
const mostShapes = 1 << 15

// knownShapes has the shapes of states by their groups.
type knownShapes map[groups]*shape

// find returns the shape of states with these groups, which are count groups.
func (all knownShapes) find(symbolGroups groups, count int) *shape {
	s := all[symbolGroups]
	if s == nil {
		if len(all) == mostShapes {
			clear(all)
		}
		s = newShape(symbolGroups, count)
		all[symbolGroups] = s
	}
	return s
}

// newShape makes a shape with guessed weights. Most text is ASCII. A group of many symbols is likelier than a group of
// few, but not in proportion: a text is ended by a single symbol.
func newShape(symbolGroups groups, count int) *shape {
	s := &shape{groups: symbolGroups, weights: make([]float32, count)}
	ascii, others := make([]int, count), make([]int, count)
	for symbol, g := range symbolGroups {
		switch {
		case g == 0:
		case symbol < 0x80:
			ascii[g-1]++
		default:
			others[g-1]++
		}
	}
	sum := float32(0)
	for k := range s.weights {
		s.weights[k] = float32(math.Log2(float64(1+ascii[k])) + math.Log2(float64(1+others[k]))/16)
		sum += s.weights[k]
	}
	for k := range s.weights {
		s.weights[k] *= guessed / sum
	}
	return s
}

// note remembers a symbol that followed a state of the shape.
func (s *shape) note(symbol byte) {
	g := s.groups[symbol]
	if g == 0 {
		return
	}
	if s.read == mostRead {
		for k := range s.weights {
			s.weights[k] /= 2
		}
		s.read /= 2
	}
	s.weights[g-1]++
	s.read++
}
