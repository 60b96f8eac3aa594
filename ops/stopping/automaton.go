package stopping

import (
	"errors"

	"github.com/quire/quire/text/tokenizer"
)

// Width is the number of symbols that an automaton reads: the values of a byte.
const Width = 256

// Automaton is a table of states and their successors. State 0 is the first.
type Automaton struct {
	// Next has Width entries for each state: the next state, or ^state if a stop is found on the transition.
	Next []int32
}

// States returns the number of states.
func (a *Automaton) States() int { return len(a.Next) / Width }

// Walk reads symbols, starting in a state. It returns the last state and whether a stop was found.
func (a *Automaton) Walk(state int32, symbols []byte) (after int32, found bool) {
	for _, symbol := range symbols {
		if state = a.Next[int(state)*Width+int(symbol)]; state < 0 {
			state, found = ^state, true
		}
	}
	return state, found
}

// ErrTooLarge reports that stops need more states than the limit.
var ErrTooLarge = errors.New("the stops need too many states")

// replacement replaces bytes that are not UTF-8.
const replacement = "\uFFFD"

// Compile returns the automaton that finds stops in the text of pieces. Stops are UTF-8 and not empty. It returns
// ErrTooLarge if more than limit states are needed.
func Compile(p *tokenizer.Pieces, stops []string, limit int) (*Automaton, error) {
	t, err := newTrie(stops, limit)
	if err != nil || p.Drops > limit {
		return nil, ErrTooLarge
	}
	c := &compiler{trie: t, form: p.Form, ids: map[config]int32{}, limit: limit}
	if err := c.number(config{node: t.dropping(p.Drop, p.Drops)}); err != nil {
		return nil, err
	}
	a := &Automaton{}
	for index := 0; index < len(c.configs); index++ {
		for symbol := range Width {
			next, found := c.step(c.configs[index], byte(symbol))
			if err := c.number(next); err != nil {
				return nil, err
			}
			id := c.ids[next]
			if found {
				id = ^id
			}
			a.Next = append(a.Next, id)
		}
	}
	return a, nil
}

// config is a state: what is known of the text so far.
type config struct {
	// node is the position in the trie. If the last bytes may still turn out not to be text, node assumes that they
	// are, and broken that they are not.
	node, broken int32
	decoding     utf8State // state of the uncertain bytes
	run          bool      // the uncertain bytes are byte tokens
	escaped      bool      // the next symbol is a byte token's byte
	// found and foundBroken report whether there is a stop within the uncertain bytes, under the assumptions of node
	// and broken.
	found, foundBroken bool
}

// compiler numbers the reachable states.
type compiler struct {
	*trie
	form    tokenizer.PieceForm
	ids     map[config]int32
	configs []config
	limit   int
}

func (c *compiler) number(s config) error {
	if _, ok := c.ids[s]; ok {
		return nil
	}
	if len(c.configs) == c.limit {
		return ErrTooLarge
	}
	c.ids[s] = int32(len(c.configs))
	c.configs = append(c.configs, s)
	return nil
}

// step returns the state after s and a symbol, and whether a stop is found on the transition.
func (c *compiler) step(s config, symbol byte) (config, bool) {
	switch c.form {
	case tokenizer.ByteLevelPieces:
		return c.stepByteLevel(s, symbol)
	case tokenizer.FallbackPieces:
		return c.stepFallback(s, symbol)
	}
	node, found := c.follow(s.node, symbol)
	return config{node: node}, found
}

// stepByteLevel reads a byte of text that may not be UTF-8. A stop ends where a character ends, so an incomplete
// character contains none.
func (c *compiler) stepByteLevel(s config, b byte) (config, bool) {
	decoding := s.decoding.next(b)
	if s.decoding != boundary && decoding == invalid { // and b starts a new character
		next, found := c.stepByteLevel(config{node: s.broken}, b)
		return next, found || s.foundBroken
	}
	switch decoding {
	case invalid:
		node, found := c.followAll(s.node, replacement)
		return config{node: node}, found
	case boundary:
		node, found := c.follow(s.node, b)
		return config{node: node}, found
	}
	next := config{broken: s.broken, foundBroken: s.foundBroken, decoding: decoding}
	if s.decoding == boundary {
		next.broken, next.foundBroken = c.followAll(s.node, replacement)
	}
	next.node, _ = c.follow(s.node, b)
	return next, false
}

// stepFallback reads a byte of text, or of a byte token.
func (c *compiler) stepFallback(s config, b byte) (config, bool) {
	switch {
	case s.escaped:
		next := s
		next.escaped = false
		if !s.run {
			next.run, next.broken = true, s.node
		}
		var found bool
		next.broken, found = c.followAll(next.broken, replacement)
		next.foundBroken = next.foundBroken || found
		if next.decoding = s.decoding.next(b); next.decoding == invalid {
			next.node, next.found = 0, false
			return next, false
		}
		next.node, found = c.follow(s.node, b)
		next.found = next.found || found
		return next, false
	case b == tokenizer.PieceEscape:
		s.escaped = true
		return s, false
	}
	node, found := s.node, s.found
	if s.run && s.decoding != boundary {
		node, found = s.broken, s.foundBroken
	}
	if b == tokenizer.PieceRunEnd {
		return config{node: node}, found
	}
	node, more := c.follow(node, b)
	return config{node: node}, found || more
}
