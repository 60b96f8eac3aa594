package config

import (
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models/decoder"
)

// Held describes how the weights of a config's model are held.
type Held struct {
	Arrays []decoder.Array
	DType  dtypes.DType // of activations
	Bytes  int64
	Forms  string // the forms of matrices that are not in DType: see [Plan].Weights
}

// Held returns how the weights of c.Model are held on c.Backend, for an encoder, which has nothing else of a config.
func (c Config) Held() (h Held, err error) {
	if h.DType, _, err = c.dtypes(); err != nil {
		return Held{}, err
	}
	h.Arrays = c.arrays()
	h.Bytes, h.Forms = heldWeights(c, h.DType)
	return h, nil
}
