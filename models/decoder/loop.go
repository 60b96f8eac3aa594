package decoder

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/control"
)

// ErrLayersDiffer is wrapped by the errors of [LoopOf].
var ErrLayersDiffer = errors.New("the layers of the model are not alike")

// Loop describes how layers run as a loop. The layers before First and after the last turn run by themselves. A turn
// has Period layers, which compute the same as the corresponding layers of other turns, with different weights.
type Loop struct{ First, Period, Turns int }

// maxPeriod bounds the search for a period. The longest period of a known model is 10.
const maxPeriod = 32

// LoopOf returns the loop with which a program has the fewest layers. It is an error if the model has none.
func LoopOf(cfg models.Config) (Loop, error) {
	if cfg.LayerEmbedding > 0 {
		return Loop{}, fmt.Errorf("%w: each has an embedding of its own", ErrLayersDiffer)
	}
	n := cfg.NumLayers
	for i := range n {
		if !cfg.Owns(i) {
			return Loop{}, fmt.Errorf("%w: layer %d has no keys and values of its own", ErrLayersDiffer, i)
		}
	}
	if n == 1 {
		return Loop{Period: 1, Turns: 1}, nil
	}
	var best Loop
	for period := 1; period <= min(n/2, maxPeriod); period++ {
		end := n // the first layer after the layers that equal the layer a period before
		for first := n - period - 1; first >= 0; first-- {
			was, now := cfg.Layers[first], cfg.Layers[first+period]
			if was.KVFrom = now.KVFrom; was != now {
				end = first + period
				continue
			}
			l := Loop{First: first, Period: period, Turns: (end - first) / period}
			fewer := l.Bodies(n) - best.Bodies(n)
			if l.Turns > 1 && (best.Turns == 0 || fewer < 0 || fewer == 0 && period == best.Period) {
				best = l
			}
		}
	}
	if best.Turns == 0 {
		return best, fmt.Errorf("%w: no layer equals the one before it, and no pattern of layers repeats",
			ErrLayersDiffer)
	}
	return best, nil
}

// loopOf returns the loop of a model whose weights are held for one, otherwise a loop of no layers.
func loopOf(cfg models.Config, loops bool) Loop {
	if !loops {
		return Loop{First: cfg.NumLayers}
	}
	l, err := LoopOf(cfg)
	if err != nil {
		panic(err)
	}
	return l
}

// end returns the number of the first layer after the last turn.
func (l Loop) end() int { return l.First + l.Period*l.Turns }

// Bodies returns how many of the layers a program contains.
func (l Loop) Bodies(layers int) int { return layers - l.Period*(max(l.Turns, 1)-1) }

// Body returns the number of a layer among the layers that a program contains. If the layer is in the loop, looped is
// true, and turn is its turn.
func (l Loop) Body(layer int) (body, turn int, looped bool) {
	switch {
	case layer < l.First:
		return layer, 0, false
	case layer >= l.end():
		return layer - l.Period*(l.Turns-1), 0, false
	}
	return l.First + (layer-l.First)%l.Period, (layer - l.First) / l.Period, true
}

// stack makes one array, [turns, ...], of the arrays of layers in the loop. It has the name of the first one.
func (l Loop) stack(list []Array) []Array {
	stacks := map[string]bool{}
	list = stack(list, func(a Array) (string, bool) {
		var number int
		if _, err := fmt.Sscanf(a.Name, layerPrefix+"%d.", &number); err != nil {
			return "", false
		}
		body, _, looped := l.Body(number)
		_, name, _ := strings.Cut(strings.TrimPrefix(a.Name, layerPrefix), ".")
		name = fmt.Sprintf("%s%d.%s", layerPrefix, body, name)
		stacks[name] = looped
		return name, looped
	})
	for i := range list {
		list[i].looped = stacks[list[i].Name]
	}
	return list
}

// kind returns the same value for tensors of layers whose arrays are one.
func (l Loop) kind(t arch.Tensor) string {
	if !strings.HasPrefix(t.Array, layerPrefix) {
		return t.Name
	}
	body, _, looped := l.Body(t.Layer)
	if !looped {
		return t.Name
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(t.Array, layerPrefix), ".")
	return fmt.Sprintf("%d.%s %s", body, name, t.Part)
}

// eachLayer runs the layers in order on hidden states and the attention's state: as a loop if the weights are held
// for it.
func eachLayer(cfg models.Config, w Weights, x *Node, state []*Node,
	run func(layer Layer, w Weights, x *Node, state []*Node) (*Node, []*Node)) (*Node, []*Node) {
	loop := loopOf(cfg, w.looped)
	one := func(layer Layer, x *Node, state []*Node) (*Node, []*Node) {
		return run(layer, w.layer(layer), x, state)
	}
	for i := range loop.First {
		x, state = one(Layer{Number: i}, x, state)
	}
	if loop.Turns > 0 {
		type progress struct {
			Turn, X *Node
			State   []*Node
		}
		end := control.While(progress{ScalarZero(x.Graph(), dtypes.Int32), x, state},
			func(p progress) *Node {
				return LessThan(p.Turn, Scalar(p.Turn.Graph(), dtypes.Int32, float64(loop.Turns)))
			},
			func(p progress) progress {
				x, state := p.X, p.State
				for i := range loop.Period {
					x, state = one(Layer{Number: loop.First + i, Turn: p.Turn}, x, state)
				}
				return progress{AddScalar(p.Turn, 1), x, state}
			})
		x, state = end.X, end.State
	}
	for i := loop.end(); i < cfg.NumLayers; i++ {
		x, state = one(Layer{Number: i}, x, state)
	}
	return x, state
}
