package arch

import (
	"fmt"
	"math"
)

// Encoder is what a model that only encodes texts has in addition to its layers. The zero value is a decoder's.
type Encoder struct {
	Only bool // it generates no text: there are no scores of a next token
	// Positions is the number of learned position embeddings, which are added to the embeddings of tokens; 0: none. The
	// first token of a text has the one with the number FirstPosition. If that is above 0, the number before it is the
	// padding's: see Learned.
	Positions, FirstPosition int
	Types                    int  // the number of embeddings of kinds of tokens, of which texts have the first; 0: none
	EmbeddingNorm            bool // the sum of a token's embeddings goes through a norm
	NoFinalNorm              bool // the hidden states of the last layer are the result
	// Buckets is how many biases of scores each head has, by the distance of the key from the query, shared by all
	// layers; 0: none. Distances above BucketDistance have the last one of their direction.
	Buckets, BucketDistance int
}

// Embeds reports whether a token's embeddings are more than what its id gives.
func (e Encoder) Embeds() bool { return e.Positions > 0 || e.Types > 0 || e.EmbeddingNorm }

// Learned sets the numbers of the position embeddings of a text's tokens. In RoBERTa's family the token of padding, if
// a text has it, has the embedding of its own id, and does not count.
func (e Encoder) Learned(tokens, to []int32) {
	next := int32(e.FirstPosition)
	for i, id := range tokens {
		if padding := int32(e.FirstPosition) - 1; padding >= 0 && id == padding {
			to[i] = padding
			continue
		}
		to[i] = next
		next++
	}
}

// AllAhead is a [Layer].Ahead: a token attends to all tokens of its text.
const AllAhead = math.MaxInt32

// Dense is a linear layer that follows the pooling.
type Dense struct {
	In, Out    int
	Bias       bool
	Activation Activation `json:",omitempty"` // Tanh, ReLU, or one of feed-forwards; "": none
	Norm       bool       `json:",omitempty"` // a LayerNorm follows, as the model's norms are
}

// Activations of layers that follow the pooling, in addition to those of feed-forwards.
const (
	Tanh Activation = "tanh"
	ReLU Activation = "relu"
)

// NameDense is the beginning of the names of a dense layer's tensors.
func NameDense(number int) string { return fmt.Sprintf("%s%d", densePrefix, number) }

const (
	densePrefix = "dense."
	denseNorm   = ".norm"
)

// NameDenseNorm is the name of the norm after a dense layer.
func NameDenseNorm(number int) string { return NameDense(number) + denseNorm }

// GGUFDense is the beginning of these names in GGUF files, which count the modules of sentence-transformers.
func GGUFDense(number int) string { return fmt.Sprintf("dense_%d", number+2) }

// Beginnings of the names of a head's two layers in GGUF files.
const (
	GGUFHead   = "cls"
	GGUFScores = "cls.output"
)

// Names of the weights of embeddings, in addition to the token's.
const (
	NamePositions     = "model.embed_positions.weight"
	NameTypes         = "model.embed_types.weight"
	NameEmbeddingNorm = "model.embed_norm"
	NameBuckets       = "model.score_bias.weight"
)

// embeddings are the tensors that follow the embeddings of tokens.
func (e Encoder) tensors(c *Config) (list []Tensor) {
	add := func(name, gguf string, part Part, shape ...int) {
		list = append(list, Tensor{Name: name, GGUF: gguf, Part: part, Shape: shape, Array: string(part)})
	}
	if e.Positions > 0 {
		add(NamePositions, "position_embd.weight", Positions, e.Positions, c.HiddenSize)
	}
	if e.Types > 0 {
		add(NameTypes, "token_types.weight", Types, e.Types, c.HiddenSize)
	}
	if e.EmbeddingNorm {
		add(NameEmbeddingNorm+weightSuffix, "token_embd_norm.weight", EmbeddingNorm, c.HiddenSize)
		if c.Norm.hasBias() {
			add(NameEmbeddingNorm+biasSuffix, "token_embd_norm.bias", NormBias, c.HiddenSize)
			list[len(list)-1].Array = string(EmbeddingNorm) + biasSuffix
		}
	}
	if e.Buckets > 0 {
		add(NameBuckets, "score_bias.weight", Buckets, e.Buckets, c.NumHeads)
		list[len(list)-1].Axis, list[len(list)-1].Over = 1, ByQueryHeads
	}
	return list
}

// tensorsOfDense are the tensors of dense layers.
func tensorsOfDense(c *Config) (list []Tensor) {
	n := c.Norm
	for i, d := range c.Dense {
		file := GGUFDense(i)
		if c.Classifier != nil {
			if file = GGUFHead; i == len(c.Dense)-1 {
				file = GGUFScores
			}
		}
		add := func(suffix string, shape ...int) {
			list = append(list, Tensor{Name: NameDense(i) + suffix, GGUF: file + suffix, Part: DensePart, Shape: shape,
				Array: NameDense(i) + suffix})
		}
		if add(weightSuffix, d.Out, d.In); d.Bias {
			add(biasSuffix, d.Out)
		}
		if d.Norm {
			add(denseNorm+weightSuffix, d.Out)
			list[len(list)-1].Part = DenseNorm
		}
		if d.Norm && n.hasBias() {
			add(denseNorm+biasSuffix, d.Out)
			list[len(list)-1].Part = NormBias
		}
	}
	return list
}

// checkEncoder validates what only encoders have.
func checkEncoder(c *Config) error {
	e := c.Encoder
	switch {
	case min(e.Positions, e.FirstPosition, e.Types, e.Buckets, e.BucketDistance) < 0 ||
		max(e.Positions, e.Types, e.Buckets, e.BucketDistance) > maxDimension:
		return fmt.Errorf("there are embeddings of %d positions and %d types, and biases of %d distances", e.Positions,
			e.Types, e.Buckets)
	case e.Positions > 0 && e.FirstPosition+c.MaxPositions > e.Positions:
		return fmt.Errorf("there are embeddings of %d positions, and texts have up to %d, the first being %d",
			e.Positions, c.MaxPositions, e.FirstPosition)
	case e.Buckets > 0 && (e.Buckets < 4 || e.Buckets%4 != 0 || e.BucketDistance <= e.Buckets/4):
		return fmt.Errorf("there are biases of %d distances up to %d", e.Buckets, e.BucketDistance)
	}
	in := c.HiddenSize
	for i, d := range c.Dense {
		if d.In != in || d.Out < 1 || d.Out > maxDimension {
			return fmt.Errorf("dense layer %d makes %d numbers of %d, and gets %d", i, d.Out, d.In, in)
		}
		if d.Norm && !c.Norm.Layer {
			return fmt.Errorf("dense layer %d has a LayerNorm, and the model has none", i)
		}
		in = d.Out
	}
	return nil
}

// Bucket is the number of the bias for a key that is distance tokens after the query, as T5 numbers them: half of them
// are for keys after the query. Half of each half are of one distance, the others of ranges that grow by a factor.
func (e Encoder) Bucket(distance int) int32 {
	half, first := e.Buckets/2, 0
	if distance > 0 {
		first = half
	} else {
		distance = -distance
	}
	exact := half / 2
	if distance < exact {
		return int32(first + distance)
	}
	// In float32, as transformers does.
	part := float32(math.Log(float64(float32(distance)/float32(exact)))) /
		float32(math.Log(float64(e.BucketDistance)/float64(exact))) * float32(half-exact)
	return int32(first + min(exact+int(part), half-1))
}
