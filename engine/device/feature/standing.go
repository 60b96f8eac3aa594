package feature

import . "github.com/gomlx/gomlx/core/graph"

// Standing is where n rows stand with what they draw from that the tokens before decide. The fields of features that a
// program lacks are nil.
type Standing struct {
	Masks      *Node // i32[n, stopping.Lanes]: see masks
	Left, Open *Node // i32[n]: see thinkingOf
}

// walker is a feature that drafts are walked through: what a row may draw depends on where the tokens before took it.
type walker interface {
	feature
	// stand fills in where slots i32[n] stand, noStanding zeros for n rows.
	stand(st State, slots *Node, s *Standing)
	noStanding(g *Graph, n int, s *Standing)
	// walk takes slots i32[n] through tokens i32[n], those that are able to draw them, bool[n]; it returns the ones
	// that are, and of which the device knows what they may draw behind them.
	walk(st State, in Input, slots, tokens, able *Node, s *Standing) *Node
	// only is the one token that slots i32[n] may draw where they stand, i32[n]; -1 if there are several.
	only(st State, slots *Node, s Standing) *Node
}

// walkers are the features that drafts are walked through.
func (l List) walkers() (of []walker) {
	for _, f := range l {
		if w, ok := f.(walker); ok {
			of = append(of, w)
		}
	}
	return of
}

// WalksDrafts reports whether drafts are walked through what rows draw from.
func (l List) WalksDrafts() bool { return len(l.walkers()) > 0 }

// Standing is that of slots i32[n].
func (l List) Standing(st State, slots *Node) (s Standing) {
	for _, w := range l.walkers() {
		w.stand(st, slots, &s)
	}
	return s
}

// NoStanding is one of n rows, all zero.
func (l List) NoStanding(g *Graph, n int) (s Standing) {
	for _, w := range l.walkers() {
		w.noStanding(g, n, &s)
	}
	return s
}

// Walk takes slots i32[n] through tokens i32[n], where able, bool[n], holds. It returns where they are able to draw
// them, and the device knows what they may draw behind them.
func (l List) Walk(st State, in Input, slots, tokens, able *Node, s Standing) (*Node, Standing) {
	for _, w := range l.walkers() {
		able = w.walk(st, in, slots, tokens, able, &s)
	}
	return able, s
}

// Only is the one token that slots i32[n] may draw where they stand, i32[n]; -1 if there are several. Of two features
// the later one decides.
func (l List) Only(st State, slots *Node, s Standing) (token *Node) {
	for _, w := range l.walkers() {
		if one := w.only(st, slots, s); token == nil {
			token = one
		} else {
			token = Where(GreaterOrEqual(one, ZerosLike(one)), one, token)
		}
	}
	return token
}
