package linear

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
)

// Activation is what a layer does to each number of its product.
type Activation string

// The activations. Their numbers, which kernels know them by, are their places in [Activations].
const (
	None        Activation = "none"
	SiLU        Activation = "silu"         // x * sigmoid(x)
	GELUTanh    Activation = "gelu_tanh"    // x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2
	GELU        Activation = "gelu"         // x * (1 + erf(x / sqrt(2))) / 2
	ReLUSquared Activation = "relu_squared" // max(x, 0)^2
	// ClampedSwiGLU is of gates and ups only: gate * sigmoid(1.702 gate) * (up + 1), with gates cut at 7, and ups kept
	// within -7 and 7.
	ClampedSwiGLU Activation = "clamped_swiglu"
)

// limit is the limit of [ClampedSwiGLU], and of "clamped_swiglu 3", the same with another one; 0 of other activations.
func (a Activation) limit() float64 {
	if a == ClampedSwiGLU {
		return SwiGLULimit
	}
	text, _ := strings.CutPrefix(string(a), string(ClampedSwiGLU)+" ")
	limit, _ := strconv.ParseFloat(text, 64)
	return limit
}

// inKernels reports whether kernels know the activation. Others have the plain form alone.
func (a Activation) inKernels() bool { return a == "" || slices.Contains(Activations, a) }

// The numbers of [ClampedSwiGLU].
const (
	SwiGLULimit = 7.0
	SwiGLUAlpha = 1.702
)

// Activations are all that kernels know.
var Activations = []Activation{None, SiLU, GELUTanh, GELU, ReLUSquared, ClampedSwiGLU}

func (a Activation) number() int {
	if a == "" {
		a = None
	}
	n := slices.Index(Activations, a)
	if n < 0 {
		panic(fmt.Errorf("linear: there is no activation %q", string(a)))
	}
	return n
}

// pair is the plain form for gates and ups.
func (a Activation) pair(gate, up *Node) *Node {
	if a.limit() == 0 {
		return Mul(a.plain(gate), up)
	}
	limit := MulScalar(OnesLike(gate), a.limit())
	gate, up = Min(gate, limit), Max(Min(up, limit), Neg(limit))
	return Mul(AddScalar(up, 1), Mul(gate, Sigmoid(MulScalar(gate, SwiGLUAlpha))))
}

// plain computes the plain form.
func (a Activation) plain(x *Node) *Node {
	switch Activations[a.number()] {
	case SiLU:
		return Mul(x, Sigmoid(x))
	case GELUTanh:
		inner := MulScalar(Add(x, MulScalar(Mul(x, Square(x)), 0.044715)), math.Sqrt(2/math.Pi))
		return Mul(MulScalar(x, 0.5), AddScalar(Tanh(inner), 1))
	case GELU:
		return Mul(MulScalar(x, 0.5), AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1))
	case ReLUSquared:
		return Square(Max(x, ZerosLike(x)))
	case ClampedSwiGLU:
		panic(fmt.Errorf("linear: activation %q is of gates and ups", string(a)))
	}
	return x
}
