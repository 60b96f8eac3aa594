package stopping

import (
	"maps"
	"slices"
)

// TokenBytes is the number of symbols of a token in an automaton of [CompileTokens]: its bytes, the highest first.
const TokenBytes = 3

// TokenSymbols returns the symbols of a token.
func TokenSymbols(token int32) []byte {
	return []byte{byte(token >> 16), byte(token >> 8), byte(token)}
}

// CompileTokens returns the automaton that finds sequences of tokens, none of which is empty. Sequences of one token,
// however many, take no more states than a vocabulary has blocks of 256. It returns ErrTooLarge if more than limit
// states are needed.
func CompileTokens(sequences [][]int32, limit int) (*Automaton, error) {
	s := newSequences(sequences)
	if len(s.nodes) > limit {
		return nil, ErrTooLarge
	}
	a := &Automaton{}
	// The first states are the nodes. Then come common states: one of depth d has d bytes of a token yet to read, and
	// leads to node 0.
	add := func(to int32) (int32, error) {
		id := int32(a.States())
		if int(id) == limit {
			return 0, ErrTooLarge
		}
		for range Width {
			a.Next = append(a.Next, to)
		}
		return id, nil
	}
	for range s.nodes {
		if _, err := add(0); err != nil {
			return nil, err
		}
	}
	last, err := add(0)
	if err != nil {
		return nil, err
	}
	middle, err := add(last)
	if err != nil {
		return nil, err
	}
	// child returns the state after a byte. It creates the state if the transition still leads to the common one.
	child := func(parent int32, b byte, common, then int32) (int32, error) {
		transition := &a.Next[int(parent)*Width+int(b)]
		if *transition != common {
			return *transition, nil
		}
		id, err := add(then)
		if err == nil {
			a.Next[int(parent)*Width+int(b)] = id
		}
		return id, err
	}
	for node := range s.nodes {
		for b := range Width {
			a.Next[node*Width+b] = middle
		}
		leads := s.leads(int32(node))
		for _, token := range slices.Sorted(maps.Keys(leads)) {
			bytes := TokenSymbols(token)
			second, err := child(int32(node), bytes[0], middle, last)
			if err != nil {
				return nil, err
			}
			third, err := child(second, bytes[1], last, 0)
			if err != nil {
				return nil, err
			}
			a.Next[int(third)*Width+int(bytes[2])] = leads[token]
		}
	}
	return a, nil
}

// TokenEnds returns, for each state of [CompileTokens] at which a token starts, the tokens that end a sequence there.
// These are the first states.
func TokenEnds(list [][]int32) [][]int32 {
	s := newSequences(list)
	ends := make([][]int32, len(s.nodes))
	for node := range s.nodes {
		for token, to := range s.leads(int32(node)) {
			if to < 0 {
				ends[node] = append(ends[node], token)
			}
		}
		slices.Sort(ends[node])
	}
	return ends
}

// sequences is a trie of sequences of tokens. A last token has a node only if another sequence continues there.
type sequences struct {
	nodes []*tokenNode
}

type tokenNode struct {
	children map[int32]int32
	ends     map[int32]bool // tokens at which a sequence ends
	suffix   int32          // the node of the longest proper suffix
}

func newSequences(list [][]int32) *sequences {
	s := &sequences{}
	add := func() int32 {
		s.nodes = append(s.nodes, &tokenNode{children: map[int32]int32{}, ends: map[int32]bool{}})
		return int32(len(s.nodes) - 1)
	}
	add()
	for _, tokens := range list {
		current := s.nodes[0]
		for _, token := range tokens[:len(tokens)-1] {
			next, ok := current.children[token]
			if !ok {
				next = add()
				current.children[token] = next
			}
			current = s.nodes[next]
		}
		current.ends[tokens[len(tokens)-1]] = true
	}
	queue := []int32{0}
	for len(queue) > 0 {
		current := queue[0]
		queue = queue[1:]
		for token, child := range s.nodes[current].children {
			if current != 0 {
				s.nodes[child].suffix = s.follow(s.nodes[current].suffix, token)
			}
			queue = append(queue, child)
		}
	}
	return s
}

// follow returns the node after a token.
func (s *sequences) follow(node, token int32) int32 {
	for {
		if to, ok := s.nodes[node].children[token]; ok {
			return to
		}
		if node == 0 {
			return 0
		}
		node = s.nodes[node].suffix
	}
}

// leads returns the tokens that lead from a node to a node other than 0, or end a sequence, with the next node: ^node
// at an end.
func (s *sequences) leads(node int32) map[int32]int32 {
	to, ends := map[int32]int32{}, map[int32]bool{}
	for current := node; ; current = s.nodes[current].suffix {
		for token, child := range s.nodes[current].children {
			if _, ok := to[token]; !ok {
				to[token] = child
			}
		}
		for token := range s.nodes[current].ends {
			ends[token] = true
		}
		if current == 0 {
			break
		}
	}
	for token := range ends {
		to[token] = ^to[token] // node 0 if nothing continues
	}
	return to
}
