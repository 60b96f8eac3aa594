package arch

import (
	"slices"
	"strings"
)

// Decoder is a class of models: what checkpoints of it are called, and how their configs are read.
type Decoder struct {
	Class     string // Hugging Face class, as "architectures" of a config.json has it
	ModelType string // its model_type
	GGUF      GGUF
	Defaults  Defaults
	Names     Names // of its layers' tensors; nil: those of Llama
	Norm      Norm

	// JSON reads from a config.json what is the decoder's own, when the rest of c is read but for the rotary embedding
	// and special tokens. The layers are [Config.LlamaLayer] before. What a key asks for that the decoder does not have
	// is to be refused by name.
	JSON func(j *JSON, c *Config) error
	// Metadata does the same for a GGUF file.
	Metadata func(m *Metadata, c *Config) error
}

// GGUF is what GGUF files of a decoder are like.
type GGUF struct {
	Architecture string   // general.architecture; "" if there is none of its own
	Keys         []string // keys below it that Metadata acts on, beside those of all decoders
	Interleaved  bool     // rows of q and k lie so that a rotation turns neighbours
	OffsetNorms  bool     // weights of norms have Norm.Offset in them
}

// Defaults are what transformers takes for keys that a config.json leaves out.
type Defaults struct {
	KVHeads      int // 0: as many as num_attention_heads
	MaxPositions int
	HeadDim      int     // 0: hidden_size / num_attention_heads
	Eps          float64 // 0: 1e-6
	Theta        float64
	Tie          bool
	BOS          int // -1: none
	EOS          []int32
}

// supported lists the names that f has for decoders.
func supported(decoders []Decoder, f func(d Decoder) string) string {
	var names []string
	for _, d := range decoders {
		if name := f(d); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return "supported are " + strings.Join(names, ", ")
}
