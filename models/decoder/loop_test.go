package decoder_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/decoder"
)

// layersOf is a model with a layer for each letter: w has a window, d keeps a state, x has experts.
func layersOf(letters string) models.Config {
	cfg := models.Config{NumLayers: len(letters), NumHeads: 1, NumKVHeads: 1, HeadDim: 8}
	cfg.SetLayers(cfg.LlamaLayer())
	for i, letter := range letters {
		switch l := &cfg.Layers[i]; letter {
		case 'w':
			l.Window = 512
		case 'd':
			l.Mixer = arch.Delta
		case 'x':
			l.Experts = arch.Experts{Count: 4, Chosen: 2, Size: 8}
		}
	}
	return cfg
}

// The loop is the one with the fewest layers in the program; each layer is in one place.
func TestLoopOf(t *testing.T) {
	for name, c := range map[string]struct {
		layers string
		want   decoder.Loop
		bodies int
	}{
		"one layer":    {"a", decoder.Loop{Period: 1, Turns: 1}, 1},
		"Llama":        {strings.Repeat("a", 32), decoder.Loop{Period: 1, Turns: 32}, 1},
		"gpt-oss":      {strings.Repeat("wa", 12), decoder.Loop{Period: 2, Turns: 12}, 2},
		"Gemma 3":      {strings.Repeat("wwwwwa", 10) + "ww", decoder.Loop{Period: 6, Turns: 10}, 8},
		"Qwen3.5":      {strings.Repeat("ddda", 8), decoder.Loop{Period: 4, Turns: 8}, 4},
		"DeepSeek V3":  {"aaa" + strings.Repeat("x", 58), decoder.Loop{First: 3, Period: 1, Turns: 58}, 4},
		"both sides":   {"xd" + strings.Repeat("wa", 5) + "x", decoder.Loop{First: 2, Period: 2, Turns: 5}, 5},
		"longer first": {"aaaawwdwdwdwdwdwdw", decoder.Loop{First: 5, Period: 2, Turns: 6}, 8},
		"end of turns": {"wawawaw", decoder.Loop{Period: 2, Turns: 3}, 3},
	} {
		cfg := layersOf(c.layers)
		got, err := decoder.LoopOf(cfg)
		if err != nil || got != c.want || got.Bodies(cfg.NumLayers) != c.bodies {
			t.Errorf("%s: %+v with %d layers, %v; want %+v with %d", name, got, got.Bodies(cfg.NumLayers), err, c.want,
				c.bodies)
		}
		seen := map[[2]int]bool{}
		for i := range cfg.NumLayers {
			body, turn, looped := got.Body(i)
			if at := [2]int{body, turn}; body < 0 || body >= c.bodies || turn >= got.Turns || seen[at] ||
				!looped && turn != 0 {
				t.Errorf("%s: layer %d is layer %d of turn %d, %t", name, i, body, turn, looped)
			} else {
				seen[at] = true
			}
			if first := cfg.Layers[i]; looped {
				of := cfg.Layers[body]
				if of.KVFrom = first.KVFrom; of != first {
					t.Errorf("%s: layer %d is run as layer %d", name, i, body)
				}
			}
		}
	}
	for name, cfg := range map[string]models.Config{"two that differ": layersOf("wa"), "no pattern": layersOf("awd")} {
		if l, err := decoder.LoopOf(cfg); !errors.Is(err, decoder.ErrLayersDiffer) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	embedded := layersOf("aa")
	embedded.LayerEmbedding = 4
	shared := layersOf("aa")
	shared.Layers[1].KVFrom = 0
	for name, cfg := range map[string]models.Config{"an embedding": embedded, "keys and values": shared} {
		if _, err := decoder.LoopOf(cfg); !errors.Is(err, decoder.ErrLayersDiffer) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
