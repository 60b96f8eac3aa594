package arch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Classifier is what a model with a head has that scores classes of texts. The layers of the head are [Config.Dense].
type Classifier struct {
	Labels []string // the names of the classes, one for each score
	// Problem is problem_type: "regression", "single_label_classification", "multi_label_classification", or "".
	Problem string `json:",omitempty"`
	// Function is what sentence-transformers applies to the scores of a pair: "sigmoid", "identity", or "" if the
	// config names none.
	Function string `json:",omitempty"`
	// Pooling is how the states of tokens become the input of the head: cls, mean or last.
	Pooling string
	// Padding is a token that does not count at the end of a text if Pooling is last; -1: none.
	Padding int32
	// Answers is not 0 if a decoder has the one label: its head then has the rows of the output matrix for so many
	// answers. The score is the number of the first one, or how much larger it is than the second one.
	Answers int `json:",omitempty"`
	// Tokens reports whether each token has scores, and not the text. There is no pooling then.
	Tokens bool `json:",omitempty"`
}

// maxLabels bounds the classes of a head.
const maxLabels = 1 << 20

// Values of problem_type.
const (
	Regression  = "regression"
	SingleLabel = "single_label_classification"
	MultiLabel  = "multi_label_classification"
)

// ReadClassifier reads what all heads have. pooling is theirs.
func ReadClassifier(j *JSON, pooling string) (*Classifier, error) {
	h := &Classifier{Pooling: pooling, Problem: j.String("problem_type", ""), Padding: -1}
	if known := []string{"", Regression, SingleLabel, MultiLabel}; !slices.Contains(known, h.Problem) {
		return nil, Unsupported(strings.Join(known[1:], ", ")+" are", "problem_type %q", h.Problem)
	}
	if err := h.readLabels(j); err != nil {
		return nil, err
	}
	return h, h.readFunction(j)
}

// readLabels reads id2label, or makes the names that transformers gives classes without names.
func (h *Classifier) readLabels(j *JSON) error {
	names := map[string]string{}
	if j.Has("id2label") {
		j.Decode("id2label", &names)
	} else {
		for i := range min(max(j.Int("num_labels", 2), 0), maxLabels) {
			names[strconv.Itoa(i)] = fmt.Sprintf("LABEL_%d", i)
		}
	}
	if len(names) < 1 || len(names) > maxLabels {
		return fmt.Errorf("a head has %d labels; it must be between 1 and %d", len(names), maxLabels)
	}
	for i := range len(names) {
		name, ok := names[strconv.Itoa(i)]
		if !ok {
			return fmt.Errorf("id2label has %d labels, and none with the number %d", len(names), i)
		}
		h.Labels = append(h.Labels, name)
	}
	return nil
}

// readFunction reads the function that sentence-transformers applies.
func (h *Classifier) readFunction(j *JSON) error {
	key, name := "sbert_ce_default_activation_function", j.String("sbert_ce_default_activation_function", "")
	if j.Has("sentence_transformers") {
		var own map[string]json.RawMessage
		if j.Decode("sentence_transformers", &own); own["activation_fn"] != nil {
			key, name = "sentence_transformers.activation_fn", ""
			if err := json.Unmarshal(own["activation_fn"], &name); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	functions := map[string]string{"": "", "torch.nn.modules.linear.Identity": "identity",
		"torch.nn.Identity":                   "identity",
		"torch.nn.modules.activation.Sigmoid": "sigmoid", "torch.nn.Sigmoid": "sigmoid"}
	var known bool
	if h.Function, known = functions[name]; !known {
		return Unsupported("Sigmoid and Identity are", "%s %q", key, name)
	}
	return nil
}

// Head reads the head of a file of an encoder, which scores classes by the state of the first token: a layer with an
// activation, then the scores. Files without a head change nothing.
func (m *Metadata) Head(c *Config, activation Activation) error {
	first, last := m.File.Tensor(GGUFHead+weightSuffix), m.File.Tensor(GGUFScores+weightSuffix)
	switch {
	case first == nil && last == nil:
		return nil
	case first == nil:
		return Unsupported("the model's folder is", "a head without its first layer (%s%s), which converters leave "+
			"out of BERT's, in a GGUF file", GGUFHead, weightSuffix)
	case last == nil || len(last.Dims) != 2:
		return Unsupported("the model's folder is", "a head without a matrix of scores (%s%s) in a GGUF file",
			GGUFScores, weightSuffix)
	}
	h := &Classifier{Pooling: "cls", Padding: -1}
	h.Labels, _ = m.File.Strings(m.prefix + LabelsKey)
	if len(h.Labels) == 0 {
		for i := range min(last.Dims[0], maxLabels) {
			h.Labels = append(h.Labels, fmt.Sprintf("LABEL_%d", i))
		}
	}
	if len(h.Labels) != last.Dims[0] {
		return fmt.Errorf("metadata key %q has %d labels, and %s%s has %d rows", m.prefix+LabelsKey, len(h.Labels),
			GGUFScores, weightSuffix, last.Dims[0])
	}
	c.Classifier = h
	c.Dense = []Dense{{In: c.HiddenSize, Out: c.HiddenSize, Bias: m.HasTensor(GGUFHead + biasSuffix),
		Activation: activation}, {In: c.HiddenSize, Out: len(h.Labels), Bias: m.HasTensor(GGUFScores + biasSuffix)}}
	return nil
}

// answers reads the head of a file of a decoder that answers yes or no, as llama.cpp's converter writes it for Qwen3's
// rerankers: the rows of the output matrix for the two answers. Files without a head change nothing.
func (m *Metadata) answers(c *Config) error {
	rows := m.File.Tensor(GGUFScores + weightSuffix)
	labels, labelled := m.File.Strings(m.prefix + LabelsKey)
	if c.Generates() != nil || rows == nil && !labelled {
		return nil
	}
	const rank = 4
	if !slices.Equal(labels, []string{"yes", "no"}) || m.Int("pooling_type", 0) != rank {
		return Unsupported("the answers yes and no, with pooling_type 4 (rank), are", "a head of a decoder with the "+
			"labels %q in a GGUF file", labels)
	}
	if rows == nil || !slices.Equal(rows.Dims, []int{len(labels), c.HiddenSize}) {
		return fmt.Errorf("metadata key %q has %d labels, and there is no tensor %s%s with as many rows of %d",
			m.prefix+LabelsKey, len(labels), GGUFScores, weightSuffix, c.HiddenSize)
	}
	AnswerBy(c, len(labels), "")
	return nil
}

// AnswerBy gives a decoder the head of so many answers, with a function of sentence-transformers.
func AnswerBy(c *Config, answers int, function string) {
	c.Classifier = &Classifier{Labels: []string{"relevance"}, Pooling: "last", Padding: -1, Function: function,
		Answers: answers}
	c.Dense = []Dense{{In: c.HiddenSize, Out: answers}}
}

// LabelsKey is the key of GGUF files that has the names of classes.
const LabelsKey = "classifier.output_labels"

// HeadOfTokens reads a head of one layer that scores each token.
func HeadOfTokens(j *JSON, c *Config) (err error) {
	if c.Classifier, err = ReadClassifier(j, ""); err != nil {
		return err
	}
	c.Classifier.Tokens = true
	c.Dense = append(c.Dense, Dense{In: c.HiddenSize, Out: len(c.Classifier.Labels), Bias: true})
	return nil
}

// headOfDecoder reads the head of a decoder: one layer, named score, for the last token of a text.
func headOfDecoder(j *JSON, c *Config) (err error) {
	if c.Classifier, err = ReadClassifier(j, "last"); err != nil {
		return err
	}
	if j.Has("pad_token_id") {
		c.Classifier.Padding = int32(j.Int("pad_token_id", -1))
	}
	c.Dense = []Dense{{In: c.HiddenSize, Out: len(c.Classifier.Labels)}}
	return nil
}

// classifies reports whether a class is the decoder with a head that scores classes, of texts or of tokens.
func (d Decoder) classifies(class string) bool {
	base, ok := strings.CutSuffix(d.Class, "ForCausalLM")
	if strings.HasSuffix(d.ModelType, "_text") { // the class without the word also sees pictures
		base += "Text"
	}
	return ok && (class == base+ClassificationSuffix || class == base+TokenClassification)
}

// ClassificationSuffix ends the classes of models with a head that scores classes.
const ClassificationSuffix = "ForSequenceClassification"

// withHead is a decoder whose head scores classes.
func (d Decoder) withHead(class string) Decoder {
	d.Class, d.headless, d.Head = class, true, headOfDecoder
	if strings.HasSuffix(class, TokenClassification) {
		d.Head = HeadOfTokens
	}
	d.Stored = d.Stored.and(map[string]string{"score.": NameDense(0) + "."})
	return d
}

// TokenClassification ends the classes of models with a head that scores each token.
const TokenClassification = "ForTokenClassification"

// refuseHeads returns the error for a class whose head is not computed; nil for other classes.
func refuseHeads(class string) error {
	if strings.HasSuffix(class, TokenClassification) {
		return Unsupported("heads that score the tokens of encoders are, and those that score whole texts: "+
			ClassificationSuffix, "%q, which scores each token,", class)
	}
	return nil
}
