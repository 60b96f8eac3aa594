package core

// Block is device.BlockPages pages on the host, or on their way there.
type Block struct {
	number uint64        // among several processes
	there  chan struct{} // closed when layers or err is set; nil if layers were there from the start
	layers []any         // flat slices of the cache's dtype, by layer
	err    error
}

// Wait returns the arrays, once they are there.
func (b *Block) Wait() ([]any, error) {
	if b.there != nil {
		<-b.there
	}
	return b.layers, b.err
}

// Loaded returns a block of arrays that are there.
func Loaded(layers []any) *Block { return &Block{layers: layers} }
