package parameter

import (
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
)

// MaxGenerations bounds n, so that a mistyped row does not take the memory of the whole job.
const MaxGenerations = 1 << 20

// SmallestTemperature is the smallest normal float32. A device may flush a lower temperature to zero, so rows below
// it are greedy.
const SmallestTemperature = 0x1p-126

// SmallestPenalty is the smallest repetition penalty. Dividing logits by much less gives infinities.
const SmallestPenalty = 1e-6

// Set has the values of Quire's own parameters for a row. A new parameter is a field here or in [Sampling], and an
// entry in own.
type Set struct {
	N          int // number of the row's completions
	MaxTokens  int
	Generation int // number of the row's first completion
	Stop       []string
	IgnoreEOS  bool
	// StopTokenIDs are tokens that end a completion.
	StopTokenIDs []int
	// DRYSequenceBreakers are texts at which DRY's repetitions end. Range: MaxDRYBreaker bytes each.
	DRYSequenceBreakers []string
	LogitBias           Biases
	// StructuredOutputs defines what the text must be.
	StructuredOutputs Structure
	// AdditionalProperties is [Structure.AdditionalProperties] for any structure, including a tool's call.
	AdditionalProperties bool
	// TopLogprobs is how many of the likeliest tokens are reported with each token of a completion. Range: 0 to
	// MaxTopLogprobs.
	TopLogprobs int
	// PromptLogprobs is how many of the likeliest tokens are reported with each token of the prompt, in addition to
	// its log-probability. With NoPromptLogprobs, nothing is reported for the prompt. Range: 0 to MaxTopLogprobs.
	PromptLogprobs int
	Text
	Masking
	Sampling
}

// Masking are the parameters that restrict which tokens may be sampled.
type Masking struct {
	// AllowedTokenIDs are the only tokens that may be sampled; empty for all.
	AllowedTokenIDs []int
	// BadWords are texts whose token sequences must not occur in a completion. Other tokens may spell them.
	BadWords []string
}

// MaxTopLogprobs bounds the number of likeliest tokens that are reported with each token.
const MaxTopLogprobs = 256

// NoPromptLogprobs is the value of Set.PromptLogprobs if nothing is reported for the prompt.
const NoPromptLogprobs = math.MinInt32

// Sampling are the parameters by which the device samples tokens.
type Sampling struct {
	// Temperature divides the logits; 0 is greedy decoding. Range: finite, >= 0.
	Temperature float64
	// TopP keeps the smallest set of most likely tokens with at least this much probability; 1 is off. Range: (0, 1].
	TopP float64
	// MinP drops tokens less likely than MinP times the most likely one; 0 is off. Range: [0, 1].
	MinP float64
	// TopK keeps the TopK most likely tokens; 0 is off. Range: >= 0.
	TopK int
	// Seed is the seed of the request's random numbers. Any value is valid.
	Seed uint64
	// RepetitionPenalty divides the positive logits of tokens that occur in the prompt or the completion, and
	// multiplies their other logits; 1, or 0 in Go, is off. Range: SmallestPenalty to 1/SmallestPenalty.
	RepetitionPenalty float64
	// FrequencyPenalty is subtracted from a token's logit for each time that it occurs in the completion. Range: [-2,
	// 2].
	FrequencyPenalty float64
	// PresencePenalty is subtracted from the logits of tokens that occur in the completion. Range: [-2, 2].
	PresencePenalty float64
	// NoRepeatNgramSize forbids tokens that would end a sequence of so many tokens that already occurs in prompt and
	// completion; 0 is off. Range: >= 0.
	NoRepeatNgramSize int
	// TypicalP keeps the most typical tokens, whose surprise is nearest to the mean, with at least this much
	// probability; 1, or 0 in Go, is off. Range: (0, 1].
	TypicalP float64
	// TopNSigma keeps logits that are at most TopNSigma standard deviations of all logits below the largest; 0 is
	// off. Range: >= 0.
	TopNSigma float64
	// XTCProbability is the probability of dropping all tokens whose probability is at least XTCThreshold, except the
	// least likely of them; 0 is off. Range of both: [0, 1].
	XTCProbability, XTCThreshold float64
	// DRYMultiplier * DRYBase^(repeated tokens beyond DRYAllowedLength) is subtracted from the logit of a token that
	// would continue a repetition; 0 is off. DRYPenaltyLastN is how many of the last tokens are searched, -1 for all
	// and 0 for none. Range: >= 0; the base >= 1, 0 in Go is 1.75; the last -1 to MaxDRYLastN.
	DRYMultiplier, DRYBase            float64
	DRYAllowedLength, DRYPenaltyLastN int
	// MinTokens is the number of tokens before which a completion cannot end: until then, tokens that end it are
	// forbidden and stop texts are ignored. Range: >= 0.
	MinTokens int
}

// own are Quire's own parameters, in the order of the documentation, the flags and the checks.
var own = slices.Concat([]Parameter{
	{Name: "n", From: servers, Flag: "n-generations", Short: "n", Placeholder: "N",
		Note: "completions of each prompt", InEveryJob: true,
		slot: field(1, func(s *Set) *int { return &s.N }), limits: limits{min: 1, max: MaxGenerations,
			text: fmt.Sprintf("1 to %d", MaxGenerations)}},
	{Name: "max_tokens", From: servers, Flag: "max-tokens", Placeholder: "TOKENS",
		Note: "maximum tokens of a completion", InEveryJob: true,
		slot: field(256, func(s *Set) *int { return &s.MaxTokens }), limits: limits{max: math.MaxInt32,
			text: "at least 1; 0 with prompt_logprobs"},
		allowed: func(s *Set) string {
			switch {
			case s.MaxTokens >= 1 && s.MaxTokens <= math.MaxInt32:
				return ""
			case s.MaxTokens == 0 && s.PromptLogprobs != NoPromptLogprobs:
				return ""
			case s.MaxTokens == 0:
				return "at least 1, or 0 with prompt_logprobs"
			}
			return "at least 1"
		}},
	{Name: "min_tokens", From: VLLM, Flag: "min-tokens", Placeholder: "TOKENS",
		Note:   "minimum tokens of a completion; neither the end-of-sequence token nor stop ends it before",
		Device: "i32",
		slot:   field(0, func(s *Set) *int { return &s.MinTokens }), limits: limits{text: "0 to max_tokens"},
		allowed: func(s *Set) string {
			if s.MinTokens >= 0 && s.MinTokens <= s.MaxTokens {
				return ""
			}
			return fmt.Sprintf("0 to max_tokens, which is %d", s.MaxTokens)
		}},
	{Name: "temperature", From: all, Flag: "temperature", Short: "t", Placeholder: "T",
		Note: "sampling temperature; 0 is greedy", InEveryJob: true, Device: "f32",
		slot: field(1, func(s *Set) *float64 { return &s.Temperature }), limits: limits{max: math.MaxFloat32,
			text: "a finite float32 number >= 0 (0 is greedy)"}},
	{Name: "top_k", From: VLLM | LlamaCpp | Transformers, Flag: "top-k", Placeholder: "K",
		Note: "sample from the K most likely tokens; 0 or -1 keeps all", InEveryJob: true, Device: "i32",
		slot: field(0, func(s *Set) *int { return &s.TopK }), limits: limits{max: math.MaxInt32,
			text: "in 0 <= {} <= 2147483647 (0 is off)"},
		settle: func(s *Set) {
			if s.TopK == -1 { // other engines use this for "off"
				s.TopK = 0
			}
		}},
	{Name: "top_p", From: all, Flag: "top-p", Placeholder: "P",
		Note:       "sample from the fewest most likely tokens whose probabilities sum to P; 1 keeps all",
		InEveryJob: true, Device: "f32",
		slot: field(1, func(s *Set) *float64 { return &s.TopP }), limits: limits{max: 1, above: true,
			text: "in 0 < {} <= 1 (1 is off)"}},
	{Name: "min_p", From: VLLM | LlamaCpp | Transformers, Flag: "min-p", Placeholder: "P",
		Note:       "drop tokens less likely than P times the most likely one; 0 keeps all",
		InEveryJob: true, Device: "f32",
		slot: field(0, func(s *Set) *float64 { return &s.MinP }), limits: limits{max: 1,
			text: "in 0 <= {} <= 1 (0 is off)"}},
	{Name: "typical_p", From: LlamaCpp | Transformers, Flag: "typical-p", Placeholder: "P",
		Note:   "sample from the most typical tokens whose probabilities sum to P; 1 keeps all",
		Device: "f32",
		slot:   field(1, func(s *Set) *float64 { return &s.TypicalP }), limits: limits{max: 1, above: true,
			text: "in 0 < {} <= 1 (1 is off)"}},
	{Name: "top_n_sigma", From: LlamaCpp, Flag: "top-n-sigma", Placeholder: "X",
		Note:   "drop tokens with a logit more than X standard deviations below the largest; 0 or -1 keeps all",
		Device: "f32",
		slot:   field(0, func(s *Set) *float64 { return &s.TopNSigma }), limits: limits{max: math.MaxFloat32,
			text: "a finite float32 number >= 0 (0 is off)"},
		settle: func(s *Set) {
			if s.TopNSigma == -1 { // llama.cpp uses this for "off"
				s.TopNSigma = 0
			}
		}},
	{Name: "xtc_probability", From: LlamaCpp, Flag: "xtc-probability", Placeholder: "P",
		Note:   "how often the most likely tokens are dropped: see xtc_threshold; 0 is off",
		Device: "f32",
		slot:   field(0, func(s *Set) *float64 { return &s.XTCProbability }), limits: limits{max: 1,
			text: "in 0 <= {} <= 1 (0 is off)"}},
	{Name: "xtc_threshold", From: LlamaCpp, Flag: "xtc-threshold", Placeholder: "P",
		Note:   "with xtc_probability, drop all tokens of at least probability P except the least likely of them",
		Device: "f32",
		slot:   field(0.1, func(s *Set) *float64 { return &s.XTCThreshold }), limits: limits{max: 1,
			text: "in 0 <= {} <= 1"}},
	{Name: "seed", From: servers, Flag: "seed", Placeholder: "SEED",
		Note: "seed of the random numbers, " + SeedRange, InEveryJob: true, Device: "u32[2]",
		slot: field(0, func(s *Set) *uint64 { return &s.Seed })},
	{Name: "repetition_penalty", From: VLLM | Transformers, Flag: "repetition-penalty", Placeholder: "X",
		Note:   "divide positive logits of tokens of prompt and completion by X, multiply others; 1 is off",
		Device: "f32",
		slot:   field(1, func(s *Set) *float64 { return &s.RepetitionPenalty }), limits: limits{min: SmallestPenalty,
			max: 1 / SmallestPenalty, text: "in 0.000001 <= {} <= 1000000 (1 is off)"}},
	{Name: "frequency_penalty", From: servers, Flag: "frequency-penalty", Placeholder: "X",
		Note: "subtract X from a token's logit for each time that it occurs in the completion; 0 is off", Device: "f32",
		slot: field(0, func(s *Set) *float64 { return &s.FrequencyPenalty }), limits: limits{min: -2, max: 2,
			text: "in -2 <= {} <= 2 (0 is off)"}},
	{Name: "presence_penalty", From: servers, Flag: "presence-penalty", Placeholder: "X",
		Note: "subtract X from the logits of tokens that occur in the completion; 0 is off", Device: "f32",
		slot: field(0, func(s *Set) *float64 { return &s.PresencePenalty }), limits: limits{min: -2, max: 2,
			text: "in -2 <= {} <= 2 (0 is off)"}},
	{Name: "no_repeat_ngram_size", From: Transformers, Flag: "no-repeat-ngram-size", Placeholder: "TOKENS",
		Note:   "forbid tokens that would repeat a sequence of so many tokens of prompt and completion; 0 is off",
		Device: "i32",
		slot:   field(0, func(s *Set) *int { return &s.NoRepeatNgramSize }), limits: limits{max: math.MaxInt32,
			text: "in 0 <= {} <= 2147483647 (0 is off)"}},
	{Name: "generation", Note: "number of the row's first completion",
		slot: field(0, func(s *Set) *int { return &s.Generation }), limits: limits{max: math.MaxInt32,
			text: "0 to 2147483647 - n"},
		allowed: func(s *Set) string {
			if s.Generation >= 0 && s.Generation <= math.MaxInt32-s.N {
				return ""
			}
			return fmt.Sprintf("0 to %d", math.MaxInt32-s.N)
		}},
	{Name: "stop", From: servers, Flag: "stop", Placeholder: "TEXT",
		Note: "end a completion before this text; repeatable", InEveryJob: true,
		slot: field(nil, func(s *Set) *[]string { return &s.Stop })},
	{Name: "ignore_eos", From: VLLM | LlamaCpp, Flag: "ignore-eos",
		Note: "continue past the model's end-of-sequence token, up to max_tokens", InEveryJob: true,
		slot: field(false, func(s *Set) *bool { return &s.IgnoreEOS })},
	{Name: "stop_token_ids", From: VLLM, Flag: "stop-token-ids", Placeholder: "IDS",
		Note: "end a completion at one of these tokens, separated by commas", strict: true,
		slot:    field(nil, func(s *Set) *[]int { return &s.StopTokenIDs }),
		allowed: func(s *Set) string { return ofVocabulary(s.StopTokenIDs) }},
	{Name: "logit_bias", From: servers, Flag: "logit-bias", Placeholder: "JSON",
		Note: "add to the logits of tokens, at most 1024: an object of numbers, -100 to 100, by token ids",
		slot: field(Biases(nil), func(s *Set) *Biases { return &s.LogitBias })},
	{Name: "structured_outputs", From: VLLM, Flag: "structured-outputs", Placeholder: "JSON",
		Note: "what the text must be, as in vLLM: an object with json, json_object, regex, choice or grammar",
		slot: field(Structure{}, func(s *Set) *Structure { return &s.StructuredOutputs })},
	{Name: "additional_properties", Flag: "additional-properties",
		Note: "let JSON objects have members that their schema does not list, as the standard does",
		slot: field(false, func(s *Set) *bool { return &s.AdditionalProperties })},
	{Name: "bad_words", From: VLLM, Flag: "bad-words", Placeholder: "TEXT",
		Note: "forbid TEXT's tokens in sequence, with and without a space before; the same letters in other tokens " +
			"are allowed; repeatable",
		slot: field(nil, func(s *Set) *[]string { return &s.BadWords })},
	{Name: "allowed_token_ids", From: VLLM, Flag: "allowed-token-ids", Placeholder: "IDS",
		Note: "generate these tokens only, separated by commas", strict: true,
		slot: field(nil, func(s *Set) *[]int { return &s.AllowedTokenIDs }),
		allowed: func(s *Set) string {
			if s.AllowedTokenIDs != nil && len(s.AllowedTokenIDs) == 0 {
				return "a list of one token or more"
			}
			return ofVocabulary(s.AllowedTokenIDs)
		}},
	{Name: "top_logprobs", From: OpenAI, Flag: "top-logprobs", Placeholder: "N",
		Note: "report the N likeliest tokens for each token, in columns top_ids and top_logprobs",
		slot: field(0, func(s *Set) *int { return &s.TopLogprobs }), limits: limits{max: MaxTopLogprobs,
			text: fmt.Sprintf("0 to %d", MaxTopLogprobs)}},
	{Name: "prompt_logprobs", From: VLLM, Flag: "prompt-logprobs", Placeholder: "N",
		Note: "report the log-probabilities of the prompt's tokens and the N likeliest ones, in columns " +
			"prompt_token_ids, prompt_logprobs, prompt_top_ids and prompt_top_logprobs",
		slot:   field(NoPromptLogprobs, func(s *Set) *int { return &s.PromptLogprobs }),
		limits: limits{max: MaxTopLogprobs, text: fmt.Sprintf("0 to %d", MaxTopLogprobs)},
		allowed: func(s *Set) string {
			if s.PromptLogprobs == NoPromptLogprobs || s.PromptLogprobs >= 0 && s.PromptLogprobs <= MaxTopLogprobs {
				return ""
			}
			return fmt.Sprintf("0 to %d", MaxTopLogprobs)
		}},
}, ofDRY, ofText)

// ofVocabulary returns what a list must be; "" if it is valid.
func ofVocabulary(tokens []int) string {
	for _, id := range tokens {
		if id < 0 || id > math.MaxInt32 {
			return "a list of tokens of the vocabulary"
		}
	}
	return ""
}

// slot is the place of a parameter in a [Set].
type slot interface {
	at(s *Set) any // a pointer to the value
	get(s *Set) any
	reset(s *Set)
	copy(to, from *Set)
	kind() Type
}

type slotOf[T any] struct {
	initial T
	of      func(*Set) *T
}

func field[T any](initial T, of func(*Set) *T) slot { return slotOf[T]{initial, of} }

func (f slotOf[T]) at(s *Set) any      { return f.of(s) }
func (f slotOf[T]) get(s *Set) any     { return *f.of(s) }
func (f slotOf[T]) reset(s *Set)       { *f.of(s) = f.initial }
func (f slotOf[T]) copy(to, from *Set) { *f.of(to) = *f.of(from) }

func (f slotOf[T]) kind() Type {
	switch any(f.initial).(type) {
	case int:
		return Integer
	case float64:
		return Number
	case uint64:
		return Seed
	case bool:
		return Boolean
	case []string:
		return TextList
	case []int:
		return IntegerList
	case Biases:
		return BiasesOfTokens
	case Structure:
		return Structured
	case string:
		return Word
	case ObjectJSON:
		return Object
	case ListJSON:
		return List
	}
	return 0
}

// Type returns the type of the values of one of Quire's own parameters, 0 for other parameters.
func (p *Parameter) Type() Type {
	if p.slot == nil {
		return 0
	}
	return p.slot.kind()
}

// At returns a pointer to the value of one of Quire's own parameters: *int, *float64, *uint64, *bool, *string,
// *[]string, *[]int, *ObjectJSON, *ListJSON, *Biases or
// *Structure.
func (p *Parameter) At(s *Set) any { return p.slot.at(s) }

// Own iterates over Quire's own parameters.
func Own() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := range own {
			if !yield(&table[i]) { // the table starts with them
				return
			}
		}
	}
}

// Defaults returns the parameters of a row if neither the row nor the job sets any.
func Defaults() Set {
	var s Set
	for p := range Own() {
		p.slot.reset(&s)
	}
	return s
}

// Default returns the default of one of Quire's own parameters as a flag shows it, "none" if it is empty.
func (p *Parameter) Default() string {
	s := Defaults()
	v := p.slot.get(&s)
	if !p.limits.allow(v) {
		return "none"
	}
	if _, ok := v.(Structure); ok {
		return "any text"
	}
	if list, ok := v.([]string); ok {
		if len(list) == 0 {
			return "none"
		}
		return strings.Trim(fmt.Sprintf("%q", list), "[]")
	}
	text := fmt.Sprint(v)
	if text == "" || text == "[]" || text == "map[]" {
		return "none"
	}
	return text
}

// Identity returns the parameters of a job as job.json has them, by name.
func (s *Set) Identity() map[string]any {
	initial := Defaults()
	settings := map[string]any{}
	for p := range Own() {
		v := p.slot.get(s)
		if p.InEveryJob || p.Flag != "" && !reflect.DeepEqual(v, p.slot.get(&initial)) {
			settings[p.Name] = v
		}
	}
	return settings
}

// Given are the parameters that a row sets; the others have the job's values.
type Given struct {
	values Set    // values of the given parameters; zero elsewhere
	names  uint64 // one bit for each of own
}

// Has reports whether a parameter is given.
func (g *Given) Has(p *Parameter) bool { return g.names&(1<<p.place) != 0 }

// Give marks a parameter as given, and returns a pointer to its value as [Parameter.At] does.
func (g *Given) Give(p *Parameter) any {
	g.names |= 1 << p.place
	return p.slot.at(&g.values)
}

// Values returns the values; parameters that are not given are zero.
func (g *Given) Values() Set { return g.values }

// Over returns s with the given values in place of its own.
func (g *Given) Over(s Set) Set {
	for p := range Own() {
		if g.Has(p) {
			p.slot.copy(&s, &g.values)
		}
	}
	return s
}

// Value returns the value of a parameter, or nil if it is not given.
func (g *Given) Value(p *Parameter) any {
	if !g.Has(p) {
		return nil
	}
	return p.slot.get(&g.values)
}
