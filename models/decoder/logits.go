package decoder

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
	"github.com/quire/quire/ops/tree"
)

// Logits returns the scores f32[N, vocab] of the next token for hidden states [N, hidden]; rows, i32[], as in [Hidden].
// Each device of a group gets the scores of all rows. [ByRows] needs less memory and exchanges less.
func Logits(cfg models.Config, w Weights, hidden, rows *Node) *Node {
	logits := headOf(cfg, w, hidden, rows)
	if splitOf(cfg, hidden).Devices > 1 {
		logits = collective.Concatenate(logits, 1)
	}
	return capped(cfg, logits)
}

// Part is the part of N rows whose scores a device of a group has, in order of the devices; all rows on one device.
type Part struct {
	Count *Node // i32[]: how many of its rows are wanted
	rows  *Node // i32[P]; nil for all rows. Those beyond the last one are the last one
}

// Of returns the part of x [N, ...].
func (p Part) Of(x *Node) *Node {
	if p.rows == nil {
		return x
	}
	return Gather(x, InsertAxes(p.rows, -1))
}

// ByRows computes something of the scores of the next token for each row of hidden states [N, hidden]; count, i32[], as
// in [Hidden]. f gets the scores f32[P, vocab] of a part of the rows, and returns arrays [P, ...], from which
// ByRows makes arrays [N, ...]. On a group each device computes the results of its own part, so that neither the scores
// of all rows nor the work on them is on each device; f must not call [collective].
func ByRows[T any](cfg models.Config, w Weights, hidden, count *Node, f func(logits *Node, part Part) T) T {
	split, n := splitOf(cfg, hidden), hidden.Shape().Dimensions[0]
	if split.Devices == 1 {
		return f(capped(cfg, headOf(cfg, w, hidden, count)), Part{Count: count})
	}
	g := hidden.Graph()
	size := (n + split.Devices - 1) / split.Devices
	hidden = padded(hidden, size*split.Devices, 0)
	if w.adapted != nil {
		w.adapted = padded(w.adapted, size*split.Devices, -1)
	}
	place := DivScalar(w.get(firstRowName), split.Vocab)
	logits := collective.AllToAll(headOf(cfg, w, hidden, count), place, 0, 1)
	first := MulScalar(place, size)
	all := Add(Iota(g, shapes.Make(dtypes.Int32, size), 0), BroadcastToDims(first, size))
	part := Part{rows: Min(all, Scalar(g, dtypes.Int32, n-1)), Count: Min(Max(Sub(count, first), ZerosLike(count)),
		Scalar(g, dtypes.Int32, size))}
	return tree.Map(f(capped(cfg, logits), part), func(x *Node) *Node {
		return SliceAxis(collective.Concatenate(x, 0), 0, AxisRangeFromStart(n))
	})
}

// headOf returns the product of hidden states and the head: the scores of the device's part of the vocabulary. Rows may
// have adapters on one device: see [Weights.Adapting].
func headOf(cfg models.Config, w Weights, hidden, rows *Node) *Node {
	head := arch.Head
	if cfg.TieEmbeddings {
		head = arch.Embedding
	}
	return linear.Apply(hidden, w.matrix(string(head)), linear.Options{Rows: rows, Float32: true,
		Adapters: w.adaptersOf(string(arch.Head))})
}

// capped returns the scores of the vocabulary's tokens, divided and capped as the model has it.
func capped(cfg models.Config, logits *Node) *Node {
	if logits.Shape().Dimensions[1] > cfg.VocabSize { // the devices' parts may be larger than the vocabulary
		logits = SliceAxis(logits, 1, AxisRangeFromStart(cfg.VocabSize))
	}
	if cfg.LogitDivisor > 0 {
		logits = DivScalar(logits, cfg.LogitDivisor)
	}
	if cfg.LogitCap > 0 {
		logits = MulScalar(Tanh(DivScalar(logits, cfg.LogitCap)), cfg.LogitCap)
	}
	return logits
}

// padded returns x [N, ...] with rows of a value up to n.
func padded(x *Node, n int, value float64) *Node {
	missing := n - x.Shape().Dimensions[0]
	if missing == 0 {
		return x
	}
	axes := make([]compute.PadAxis, x.Rank())
	axes[0].End = missing
	return Pad(x, Scalar(x.Graph(), x.DType(), value), axes...)
}
