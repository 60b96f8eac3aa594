// Package models opens model checkpoints: it turns a reference (a Hugging Face folder, a GGUF file, a hub name, or a
// bare config for dummy weights) into a Config and named weights, read one at a time in a given dtype.
//
// Decoders lists the supported models. A feature of a config that is not supported exactly is rejected by name with
// an *UnsupportedError, never approximated.
//
// Weights have Hugging Face names and layout for every kind of file: linear weights are [out, in], rotary halves are
// not interleaved. Files are untrusted input: a damaged one gives an error, not a panic.
package models

import (
	"slices"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/bert"
	"github.com/quire/quire/models/deepseek"
	"github.com/quire/quire/models/ernie"
	"github.com/quire/quire/models/gemma2"
	"github.com/quire/quire/models/gemma3"
	"github.com/quire/quire/models/gemma4"
	"github.com/quire/quire/models/glm4"
	"github.com/quire/quire/models/gptoss"
	"github.com/quire/quire/models/granite"
	"github.com/quire/quire/models/lfm2"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/models/modernbert"
	"github.com/quire/quire/models/nomicbert"
	"github.com/quire/quire/models/olmo2"
	"github.com/quire/quire/models/phi3"
	"github.com/quire/quire/models/quantized"
	"github.com/quire/quire/models/qwen35"
	"github.com/quire/quire/models/seedoss"
	"github.com/quire/quire/models/stablelm"
	"github.com/quire/quire/models/starcoder2"
)

// Decoders lists the supported kinds of models.
var Decoders = slices.Concat(llama.Decoders, deepseek.Decoders, gemma3.Decoders, gemma4.Decoders, granite.Decoders,
	olmo2.Decoders, qwen35.Decoders, []arch.Decoder{ernie.Decoder, gemma2.Decoder, glm4.Decoder, glm4.Mixture,
		gptoss.Decoder, lfm2.Decoder, lfm2.Mixture, phi3.Decoder, seedoss.Decoder, stablelm.Decoder,
		starcoder2.Decoder}, Encoders)

// Encoders lists the kinds among them that only encode: see [arch.Config.Generates].
var Encoders = slices.Concat(bert.Encoders, modernbert.Encoders, []arch.Decoder{nomicbert.Encoder})

// These types of package arch are part of the API of checkpoints.
type (
	Config           = arch.Config
	Rope             = arch.Rope
	RopeScaling      = arch.RopeScaling
	UnsupportedError = arch.UnsupportedError
)

// ParseConfig reads the text of a Hugging Face config.json and of a generation_config.json (nil if there is none).
func ParseConfig(config, generation []byte) (Config, error) {
	c, err := arch.ParseConfig(Decoders, config, generation)
	if err != nil {
		return Config{}, err
	}
	if _, err := quantized.Parse(c.Quantization); err != nil {
		return Config{}, err
	}
	return c, nil
}
