package engine

import (
	"fmt"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// Values of Config.Layers.
const (
	// LayersUnrolled has each layer in the program, with a cache of its own.
	LayersUnrolled = "unrolled"
	// LayersLoop has one layer in the program, as the body of a loop. The weights of all layers are one array each,
	// [layers, ...], and so are the caches: page p of layer l is page l*P + p.
	LayersLoop = "loop"
)

// checkLayers refuses what has no loop of layers.
func (p Plan) checkLayers(model models.Config) error {
	switch {
	case p.Layers == LayersUnrolled:
		return nil
	case p.Layers != LayersLoop:
		return fmt.Errorf("layers is %q: unrolled or loop is needed", p.Layers)
	case p.KV != "paged":
		return fmt.Errorf("layers is loop, which kv %s has none of: use kv paged, or layers unrolled", p.KV)
	}
	if err := decoder.CheckLayerLoop(model); err != nil {
		return fmt.Errorf("layers is loop: %w: use layers unrolled", err)
	}
	return nil
}
