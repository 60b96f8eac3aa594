package arch

import (
	"maps"
	"slices"
	"strings"
)

// Decoder is a class of models: the names by which checkpoints identify it, and how their configs are read.
type Decoder struct {
	Class     string // Hugging Face class, as in "architectures" of a config.json
	ModelType string // its model_type
	GGUF      GGUF
	Defaults  Defaults
	Names     Names // names of its layers' tensors; nil: Llama's names
	Norm      Norm
	Stored    Stored            // what a Hugging Face folder stores differently
	Quantized []string          // values of quant_method whose tensors the checkpoint's reader knows by itself
	Keys      map[string]string // keys of config.json that it calls otherwise, by the names that others have
	Text      string            // the key of config.json whose object is the decoder's config; "": config.json is

	headless bool // the config's class is that of the model without a head

	// JSON reads the decoder's own settings from a config.json, after the rest of c is read except for special tokens.
	// The layers are [Config.LlamaLayer] before. If a key asks for something that the decoder does not have, JSON
	// refuses it by name.
	JSON func(j *JSON, c *Config) error
	// Head reads the head of a class whose head scores classes, after JSON; nil for other classes.
	Head func(j *JSON, c *Config) error
	// Metadata does the same as JSON for a GGUF file.
	Metadata func(m *Metadata, c *Config) error
}

// isHeadless reports whether a class is the decoder without the head that scores tokens, as checkpoints of embedding
// models have it: Qwen3Model of Qwen3ForCausalLM, Gemma3TextModel of Gemma3ForCausalLM.
func (d Decoder) isHeadless(class string) bool {
	base, ok := strings.CutSuffix(d.Class, "ForCausalLM")
	return ok && (class == base+"Model" || class == base+"TextModel")
}

// Stored describes how a checkpoint's weights differ from [Config.Tensors].
type Stored struct {
	Interleaved bool              // rows of q and k lie so that a rotation turns neighbours
	Renamed     map[string]string // beginnings of names, and what stands there otherwise
	Ends        map[string]string // ends of names, and what stands there otherwise
	Unused      []string          // beginnings of the names, as Renamed has them, of tensors without use
}

// and is s with more beginnings of names.
func (s Stored) and(renamed map[string]string) Stored {
	all := maps.Clone(s.Renamed)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, renamed)
	s.Renamed = all
	return s
}

// WithHead is the decoder with a head that scores classes, whose tensors renamed names.
func (d Decoder) WithHead(head func(j *JSON, c *Config) error, renamed map[string]string) Decoder {
	d.Head, d.Stored = head, d.Stored.and(renamed)
	return d
}

// withoutPrefix adds the names of tensors of a model that was saved without the class that has the head.
func (s Stored) withoutPrefix() Stored {
	renamed := map[string]string{"layers.": "model.layers.", "embed_tokens.": "model.embed_tokens.",
		"norm.": "model.norm."}
	maps.Copy(renamed, s.Renamed)
	s.Renamed = renamed
	return s
}

// InterleavedRow returns the positions of the rows of q and k that are stored so that a rotation turns neighbours:
// among the first `turned` rows of a head, row half*turned/2+i, half 0 or 1, is stored as row 2*i+half.
func InterleavedRow(headDim, turned int) func(row int) int {
	return func(row int) int {
		inHead := row % headDim
		if inHead >= turned {
			return row
		}
		return row - inHead + 2*(inHead%(turned/2)) + inHead/(turned/2)
	}
}

// Name returns what [Config.Tensors] calls a tensor; ok is false for tensors without use.
func (s Stored) Name(name string) (tensor string, ok bool) {
	for begin, want := range s.Renamed {
		if rest, found := strings.CutPrefix(name, begin); found {
			name = want + rest
			break
		}
	}
	for end, want := range s.Ends {
		if rest, found := strings.CutSuffix(name, end); found {
			name = rest + want
			break
		}
	}
	for _, begin := range s.Unused {
		if strings.HasPrefix(name, begin) {
			return "", false
		}
	}
	return name, true
}

// GGUF is what GGUF files of a decoder are like.
type GGUF struct {
	Architecture string   // general.architecture; "" if there is none of its own
	Keys         []string // keys below it that Metadata acts on, in addition to the keys of all decoders
	OwnSizes     bool     // layers may have KV heads and feed-forwards of their own sizes
	Interleaved  bool     // rows of q and k lie so that a rotation turns neighbours
	OffsetNorms  bool     // weights of norms have Norm.Offset in them
	Experts      bool     // files have an expert_count, which distinguishes decoders of one Architecture
}

// Defaults are what transformers takes for keys that a config.json leaves out.
type Defaults struct {
	KVHeads      int // 0: as many as num_attention_heads
	MaxPositions int
	HeadDim      int     // 0: hidden_size / num_attention_heads
	Eps          float64 // 0: 1e-6
	Theta        float64
	LocalTheta   float64 // theta of layers with a window, if they have their own rotary embedding; 0: no
	Partial      float64 // share of a head that is turned; 0: all, and no config may say otherwise
	NTK          bool    // whether the rope type ntk is known, in the form that gte has
	Tie          bool
	BOS          int // -1: none
	EOS          []int32
	Sizes        map[string]int // sizes of keys that have no default in other decoders
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
	return "supported are " + strings.Join(slices.Compact(names), ", ")
}
