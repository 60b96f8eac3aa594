package llama

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
)

// AttentionFunc stores the new keys and values of a layer and attends to all of its sequence: q is [T, H, D], k and v are
// [T, KVH, D], the result [T, H, D], all of the weights' dtype.
type AttentionFunc func(layer int, q, k, v *Node) *Node

// Hidden runs T tokens through the decoder and returns its last hidden states [T, hidden], normalized, of the weights' dtype.
//
// tokens and positions are i32[T]. A row's result depends on that row and on what attention returns for it. Padding may hold any
// token id: ids outside the vocabulary read some row of it. rows, i32[], says how many of the T tokens, the first ones, are wanted: the
// results of the others may be anything.
func Hidden(cfg models.Config, w Weights, tokens, positions, rows *Node, attention AttentionFunc) *Node {
	g := tokens.Graph()
	embed := w.get("embed")
	dtype := embed.DType()
	ids := Min(Max(tokens, ScalarZero(g, dtypes.Int32)), Scalar(g, dtypes.Int32, float64(cfg.VocabSize-1)))
	x := Gather(embed, InsertAxes(ids, -1))
	turn := rotary(cfg, positions)
	for i := range cfg.NumLayers {
		p := fmt.Sprintf("layers.%d.", i)
		h := rmsNorm(x, w.get(p+"attention_norm"), cfg.RMSNormEps, rows)
		var qNorm, kNorm *Node
		if cfg.QKNorm {
			qNorm, kNorm = w.get(p+"q_norm"), w.get(p+"k_norm")
		}
		layerTurn := turn
		if noRope(cfg, i) {
			layerTurn = nil
		}
		q, k, v := splitHeads(cfg, linear(w, p+"qkv", cfg.QKVBias, h), qNorm, kNorm, layerTurn, rows)
		a := attention(i, q, k, v)
		a = Reshape(a, a.Shape().Dimensions[0], cfg.NumHeads*cfg.HeadDim)
		x = Add(x, linear(w, p+"o", cfg.OBias, a))

		h = rmsNorm(x, w.get(p+"mlp_norm"), cfg.RMSNormEps, rows)
		gateUp := linear(w, p+"gate_up", cfg.MLPBias, h)
		gate := SliceAxis(gateUp, 1, AxisRange(0, cfg.IntermediateSize))
		up := SliceAxis(gateUp, 1, AxisRange(cfg.IntermediateSize, 2*cfg.IntermediateSize))
		x = Add(x, linear(w, p+"down", cfg.MLPBias, ConvertDType(Mul(silu(gate), up), dtype)))
	}
	return rmsNorm(x, w.get("norm"), cfg.RMSNormEps, rows)
}

// Logits returns the scores f32[N, vocab] of the next token for hidden states [N, hidden]; rows, i32[], as in [Hidden].
func Logits(cfg models.Config, w Weights, hidden, rows *Node) *Node {
	head := "lm_head"
	if cfg.TieEmbeddings {
		head = "embed"
	}
	return ConvertDType(matmul(hidden, w.get(head)), dtypes.Float32)
}

func linear(w Weights, name string, bias bool, x *Node) *Node {
	y := matmul(x, w.get(name+".weight"))
	if bias {
		b := ConvertDType(w.get(name+".bias"), y.DType())
		y = Add(y, BroadcastToDims(InsertAxes(b, 0), y.Shape().Dimensions...))
	}
	return ConvertDType(y, x.DType())
}

// matmul is x [N, in] times w [out, in] transposed; products of half precision are summed and returned in float32.
func matmul(x, w *Node) *Node {
	return Dot(x, w).General([]int{1}, nil, []int{1}, nil)
}

// silu is x * sigmoid(x), in float32.
func silu(x *Node) *Node {
	x32 := ConvertDType(x, dtypes.Float32)
	return ConvertDType(Mul(x32, Sigmoid(x32)), x.DType())
}

func noRope(cfg models.Config, layer int) bool {
	return layer < len(cfg.NoRope) && cfg.NoRope[layer]
}
