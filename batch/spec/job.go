package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/scoring"
	"github.com/quire/quire/models/sentence"
)

// Job is what a job is: its [Spec], checked, with what was found of it since. Nothing of it changes: each phase that
// finds more makes another Job.
type Job struct {
	Spec
	Mapping  promptset.Mapping // how rows become prompts, once the files that say so were read
	Defaults string            // those parameters that the model's files give
	CutRows  int64             // rows of a part of the job in the output folder, if PartRows is 0
	Vectors  Vectors           // how its vectors are made, for the task embed
	Scores   Scores            // how its scores are made, for the tasks classify and rerank
	Side     sentence.Side     // how texts become tokens, if each has a vector
	// Whole is the length of its model's vectors, and Matryoshka what the files say about shorter ones.
	Whole      int
	Matryoshka sentence.Matryoshka
	// AdapterDigests are the digests of the adapters that rows may name, once they were opened.
	AdapterDigests map[string]string
}

// Values of [Spec.GenerationConfig].
const (
	GenerationAuto = "auto" // defaults of the model's files
	GenerationNone = "none"
)

// WithGeneration is the job with what the model's files ask for as defaults of parameters that it does not give: a
// generation_config.json, or metadata of a GGUF file.
func (j *Job) WithGeneration(requested arch.Generation, warn func(format string, args ...any)) (*Job, error) {
	if j.GenerationConfig != GenerationAuto {
		return j, nil
	}
	remedy := setting.Textf("give the parameter, or `generation-config` none")
	var taken []string
	set := j.Sampling
	for p := range parameter.Own() {
		value, ok := requested.Asked[p.Name]
		if !ok || slices.Contains(j.Given, p.Name) {
			continue
		}
		differs := false
		switch target := p.At(&set).(type) {
		case *float64:
			*target, differs = value, *target != value
		case *int:
			if value != float64(int(value)) {
				return nil, outcome.Errorf(outcome.Misused, "the model's %s has %s %v, which is no whole number: %s",
					requested.From,
					p.Name, value, remedy)
			}
			*target, differs = int(value), float64(*target) != value
		}
		if differs {
			taken = append(taken, fmt.Sprintf("%s %v", p.Name, value))
		}
	}
	if err := set.Check(func(own string) string { return own }); err != nil {
		return nil, outcome.Errorf(outcome.Misused, "the model's %s: %w: %s", requested.From, err, remedy)
	}
	next := *j
	if next.Sampling = set; len(taken) > 0 {
		next.Defaults = fmt.Sprintf("%s, of the model's %s", strings.Join(taken, ", "), requested.From)
	}
	if len(requested.Left) > 0 {
		warn("warning: the model's %s asks for %s, which Quire does not take as defaults", requested.From,
			strings.Join(requested.Left, ", "))
	}
	return &next, nil
}

// WithSentence is the job with what the model's files say about its vectors, which have size numbers. It warns about a
// pooling that neither the files nor the user chose.
func (j *Job) WithSentence(s sentence.Settings, size int, warn func(format string, args ...any)) (*Job, error) {
	e := &j.Embedding
	switch {
	case e.Multi && s.Late == nil:
		return nil, outcome.Errorf(outcome.Misused, "`multi-vector` is given, and the model's files do not say that "+
			"each token has a vector (ColBERT's artifact.metadata, or modules without a Pooling): leave it out")
	case !e.Multi && s.Late != nil:
		return nil, outcome.Errorf(outcome.Misused, "the model has a vector for each token of a text: give "+
			"`multi-vector`")
	}
	if !s.Stated && e.Pooling == "" {
		warn("warning: %s", setting.Textf("the model's files do not say how its vectors are made: `pooling` is %s and "+
			"`normalize` is %s. The vectors of a model that was not trained for it are of little use", s.Pooling,
			cmp.Or(e.Normalize, EmbeddingOff)))
	}
	v := Vectors{Pooling: cmp.Or(sentence.Pooling(e.Pooling), s.Pooling), Normalize: s.Normalize,
		Lowercase: s.Lowercase, Trim: s.Stated}
	v.Element, v.Dimensions = cmp.Or(completion.Element(e.Type), completion.Float32), cmp.Or(e.Dimensions, size)
	if e.Normalize != "" {
		v.Normalize = e.Normalize == EmbeddingOn
	}
	if v.Element == completion.Int8 && !v.Normalize {
		return nil, outcome.Errorf(outcome.Misused, "`embedding-type` is int8, whose scale is for vectors of length "+
			"1, and the vectors are not normalized: give `normalize` on, or another type")
	}
	if err := checkDimensions(e.Dimensions, size, s.Matryoshka); err != nil {
		return nil, outcome.Errorf(outcome.Misused, "`dimensions` %w", err)
	}
	var prompt string
	var side sentence.Side
	var err error
	if e.Multi {
		side, err = s.Late.Side(e.PromptName)
		prompt = side.Prompt
	} else {
		prompt, err = promptNamed(e.PromptName, &s)
	}
	if err != nil {
		return nil, outcome.Errorf(outcome.Misused, "`prompt-name` %w", err)
	}
	if prompt != "" && s.ExcludePrompt {
		return nil, outcome.Errorf(outcome.Misused, "the model's files leave the prompt out of the pooling, which "+
			"Quire does not do: give `prompt-name` none")
	}
	v.Prompt = prompt
	next := *j
	next.Vectors, next.Whole, next.Matryoshka = v, size, s.Matryoshka
	if e.Multi {
		next.Task, next.Side = completion.MultiVector, side
	}
	return &next, nil
}

// WithStates is the job with what the model's files say about the vectors of its prompts, if it has any: a completion's
// prompt has the hidden state of its last token, and no other.
func (j *Job) WithStates(s sentence.Settings, size int, warn func(format string, args ...any)) (*Job, error) {
	if !j.Embeds() {
		return j, nil
	}
	pooling := cmp.Or(sentence.Pooling(j.Embedding.Pooling), s.Pooling)
	refuse := func(format string, args ...any) (*Job, error) {
		return nil, outcome.Errorf(outcome.Misused, "`columns` has "+completion.VectorColumn+", and "+format, args...)
	}
	switch {
	case pooling != sentence.Last:
		return refuse("`pooling` is %s: alongside a completion there is the state of the last token alone, so give "+
			"`pooling` last, or `task` embed", pooling)
	case len(s.Dense) > 0 || s.Lowercase:
		return refuse("the model's files have a Dense layer after the pooling, or texts in lower case: give `task` " +
			"embed")
	}
	next, err := j.WithSentence(s, size, warn)
	if err == nil && next.Vectors.Prompt != "" {
		return refuse("the model's files have a prompt before each text: give `prompt-name` none, and prompts with it")
	}
	return next, err
}

// Forms are what the hidden states and the vectors of a job's output depend on, alongside the model and the prompts.
func (j *Job) Forms() (f reuse.Forms) {
	if slices.Contains(j.Columns, completion.HiddenColumn) {
		e := j.Hidden.engine(0)
		f.Hidden = fmt.Sprint(e.Layers, " ", e.DType, " ", e.All)
	}
	if v := &j.Vectors; j.Embeds() {
		f.Embedding = fmt.Sprint(v.VectorType, " ", v.Pooling, " ", v.Normalize)
	}
	return f
}

// WithClassifier is the job with what its model's head says about scores; nil for a model without a head.
func (j *Job) WithClassifier(c *arch.Classifier) (*Job, error) {
	switch {
	case c == nil:
		return nil, outcome.Errorf(outcome.Misused, "`task` is %s, and the model has no head that scores classes: "+
			"give a model whose class ends in %s", j.Task, arch.ClassificationSuffix)
	case c.Answers > 0 && j.Task != completion.Rerank:
		return nil, outcome.Errorf(outcome.Misused, "`task` is %s, and the model's head scores pairs: give `task` "+
			"rerank", j.Task)
	case c.Tokens && j.Task == completion.Rerank:
		return nil, outcome.Errorf(outcome.Misused, "`task` is rerank, and the model's head scores tokens: give "+
			"`task` classify")
	case c.Tokens && j.Format == promptset.FormatOpenAI:
		return nil, outcome.Errorf(outcome.Misused, "`format` is openai, whose answers have no form for the labels of "+
			"tokens: give `format` parquet or jsonl")
	case c.Tokens && j.Scoring.Function != "" && j.Scoring.Function != string(scoring.Softmax):
		return nil, outcome.Errorf(outcome.Misused, "`score-function` is %s, and the scores of tokens are the "+
			"softmax: leave it out", j.Scoring.Function)
	case !c.Tokens && slices.Contains(j.Columns, "token_labels"):
		return nil, outcome.Errorf(outcome.Misused, "`columns` is token_labels, and the model's head scores whole "+
			"texts: leave it out")
	case j.Task == completion.Rerank && len(c.Labels) > 1:
		return nil, outcome.Errorf(outcome.Misused, "`task` is rerank, and the model's head has %d labels, of which "+
			"none is known to be the relevance: give a model with one, or `task` classify", len(c.Labels))
	}
	if j.Task == completion.Rerank && j.System != "" && c.Answers == 0 {
		return nil, outcome.Errorf(outcome.Misused, "`system` is the instruction for a decoder that answers yes or "+
			"no, and the model has a head: leave it out")
	}
	next := *j
	next.Scores = Scores{Labels: c.Labels, Function: scoring.Function(j.Scoring.Function), TopN: j.Scoring.TopN,
		Answers: c.Answers}
	switch {
	case c.Tokens:
		next.Task, next.Scores.Function = completion.Tag, scoring.Softmax
		return &next, nil
	case next.Scores.Function == "":
		next.Scores.Function = map[completion.Task]func(*arch.Classifier) scoring.Function{
			completion.Classify: scoring.OfClasses, completion.Rerank: scoring.OfPairs}[j.Task](c)
	}
	next.Vectors = Vectors{VectorType: completion.VectorType{Element: completion.Float32, Dimensions: len(c.Labels)}}
	return &next, nil
}

// CheckDimensions returns why a line of a batch file can't have vectors of a number of dimensions. All vectors of an
// output with columns have the job's.
func (j *Job) CheckDimensions(n int) error {
	if j.Format != promptset.FormatOpenAI && n != j.Vectors.Dimensions {
		return setting.Errorf("is %d, and all vectors of the output have %d: give `dimensions`, or `format` openai", n,
			j.Vectors.Dimensions)
	}
	return checkDimensions(n, j.Whole, j.Matryoshka)
}
