package arch

import "fmt"

// Latent is the sizes of multi-head latent attention: keys and values of all heads are made of one vector of a token,
// its latent, and of a part of keys that is turned and that all heads share. The zero value is none.
//
// It is computed on latents: queries are projected to the space of latents, and sums of latents to the space of values.
// So a token keeps one vector for all heads, its latent and the turned part, which is the key and the value of one KV
// head.
type Latent struct {
	Rank      int // width of the latent of keys and values
	QueryRank int // width of the latent of queries; 0: queries are computed from hidden states
	// Of a head: the part of a key that is made of the latent, the part that is turned, and a value.
	KeyDim, RopeDim, ValueDim int
	// Interleaved: neighbours are turned, not halves.
	Interleaved bool
	Eps         float64 // epsilon of the norms of both latents
}

// Width is how many numbers a token keeps.
func (m Latent) Width() int { return m.Rank + m.RopeDim }

// QueryDim is how many numbers a head's query has before it is brought to latents.
func (m Latent) QueryDim() int { return m.KeyDim + m.RopeDim }

func (m Latent) check(layer int) error {
	if m == (Latent{}) {
		return nil
	}
	for _, n := range []int{m.Rank, m.KeyDim, m.RopeDim, m.ValueDim} {
		if n < 1 || n > maxLatent {
			return fmt.Errorf("layer %d has latents of %d for keys of %d and %d and values of %d; each must be "+
				"between 1 and %d", layer, m.Rank, m.KeyDim, m.RopeDim, m.ValueDim, maxLatent)
		}
	}
	switch {
	case m.QueryRank < 0 || m.QueryRank > maxDimension:
		return fmt.Errorf("layer %d has latents of %d for queries; it must be between 0 and %d", layer, m.QueryRank,
			maxDimension)
	case m.RopeDim%2 != 0:
		return fmt.Errorf("layer %d turns %d numbers of a head; it needs an even number", layer, m.RopeDim)
	case !(m.Eps > 0 && m.Eps < 1):
		return fmt.Errorf("the norms of latents of layer %d have an epsilon of %g; it must be between 0 and 1", layer,
			m.Eps)
	}
	return nil
}

// maxLatent bounds sizes of latent attention: published models have latents of 512, and heads of up to 256.
const maxLatent = 1 << 12

// latent adds the tensors of latent attention. Each device has the matrices of its query heads, and all that makes
// latents.
func (l *layerList) latent() {
	layer, heads := l.c.Layers[l.number], l.c.NumHeads
	m := layer.Latent
	const in = "latent_in"
	if m.QueryRank > 0 {
		l.outputs(QueryDown, in, Whole, m.QueryRank, layer.QKVBias)
	} else {
		l.outputs(Q, in, ByQueryHeads, heads*m.QueryDim(), false)
	}
	l.outputs(LatentDown, in, Whole, m.Width(), layer.QKVBias)
	if m.QueryRank > 0 {
		l.norm(true, QueryNorm, Whole, m.QueryRank)
		l.add(QueryUp, string(QueryUp)+weightSuffix, weightSuffix, 0, ByQueryHeads, heads*m.QueryDim(), m.QueryRank)
	}
	l.norm(true, LatentNorm, Whole, m.Rank)
	l.add(LatentUp, string(LatentUp), weightSuffix, 0, ByQueryHeads, heads*(m.KeyDim+m.ValueDim), m.Rank)
	l.inputs(O, ByQueryHeads, heads*m.ValueDim, layer.OBias)
}
