package parameter

import (
	"fmt"
	"math"
	"slices"
)

// own are Quire's own parameters, in the order of the documentation, the flags and the checks.
var own = []Parameter{
	{Name: "n", From: servers, Flag: "n-generations", Short: "n", Placeholder: "N",
		Note: "completions of each prompt", InEveryJob: true,
		slot: field(1, func(s *Set) *int { return &s.N }), limits: limits{min: 1, max: MaxGenerations,
			text: fmt.Sprintf("1 to %d", MaxGenerations)}},
	{Name: "max_tokens", From: servers, Flag: "max-tokens", Placeholder: "TOKENS",
		Note: "maximum tokens of a completion", InEveryJob: true,
		slot: field(256, func(s *Set) *int { return &s.MaxTokens }), limits: limits{max: math.MaxInt32,
			text: "at least 1; 0 with prompt_logprobs, or with a choice and the column choice_probabilities"},
		allowed: func(s *Set) string {
			switch {
			case s.MaxTokens >= 1 && s.MaxTokens <= math.MaxInt32:
				return ""
			case s.MaxTokens == 0 && (s.PromptLogprobs != NoPromptLogprobs || s.Outputs != "" ||
				s.StructuredOutputs.Kind == ChoiceStructure): // jobs and engines know whether a choice is scored
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
	{Name: "adapter",
		Note: "name of the LoRA adapter that the row is run with, one of --adapter and --adapters; none is the model",
		slot: field("", func(s *Set) *string { return &s.Adapter })},
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
	{Name: "outputs", Flag: "outputs", Placeholder: "JSON",
		Note: "what a row has, from one pass over its prompt: a list of \"text\", \"embedding\" and {\"choice\": " +
			"[\"yes\", \"no\"]}, in columns text, embedding and choice_probabilities",
		slot: field(ListJSON(""), func(s *Set) *ListJSON { return &s.Outputs }), limits: limits{text: outputsForm},
		allowed: func(s *Set) string {
			if s.Outputs == "" {
				return ""
			}
			if _, err := ParseOutputs(s.Outputs); err != nil {
				return outputsForm
			}
			return ""
		}},

	// DRY, as in llama.cpp.
	{Name: "dry_multiplier", From: LlamaCpp, Flag: "dry-multiplier", Placeholder: "X",
		Note: "subtract X * dry_base ^ (n - dry_allowed_length) from the logit of a token that would repeat what " +
			"followed the same n tokens earlier; 0 is off",
		Device: "f32",
		slot:   field(0, func(s *Set) *float64 { return &s.DRYMultiplier }), limits: limits{max: math.MaxFloat32,
			text: "a finite float32 number >= 0 (0 is off)"}},
	{Name: "dry_base", From: LlamaCpp, Flag: "dry-base", Placeholder: "X",
		Note: "base of dry_multiplier's power", Device: "f32",
		slot: field(1.75, func(s *Set) *float64 { return &s.DRYBase }), limits: limits{min: 1, max: math.MaxFloat32,
			text: "a finite float32 number >= 1"}},
	{Name: "dry_allowed_length", From: LlamaCpp, Flag: "dry-allowed-length", Placeholder: "TOKENS",
		Note: "with dry_multiplier, the fewest repeated tokens that count", Device: "i32",
		slot: field(2, func(s *Set) *int { return &s.DRYAllowedLength }), limits: limits{max: math.MaxInt32,
			text: "in 0 <= {} <= 2147483647"}},
	{Name: "dry_penalty_last_n", From: LlamaCpp, Flag: "dry-penalty-last-n", Placeholder: "TOKENS",
		Note:   "with dry_multiplier, look at so many tokens of prompt and completion; -1 looks at all, 0 at none",
		Device: "i32",
		slot:   field(64, func(s *Set) *int { return &s.DRYPenaltyLastN }), limits: limits{min: -1, max: MaxDRYLastN,
			text: fmt.Sprintf("in -1 <= {} <= %d (-1 is all)", MaxDRYLastN)}},
	{Name: "dry_sequence_breakers", From: LlamaCpp, Flag: "dry-sequence-breakers", Placeholder: "TEXT", strict: true,
		Note:   "with dry_multiplier, no repetition goes beyond this text; repeatable",
		slot:   field([]string{"\n", ":", "\"", "*"}, func(s *Set) *[]string { return &s.DRYSequenceBreakers }),
		limits: limits{text: fmt.Sprintf("UTF-8, 1 to %d bytes each", MaxDRYBreaker)},
		allowed: func(s *Set) string {
			if slices.ContainsFunc(s.DRYSequenceBreakers, func(t string) bool { return len(t) > MaxDRYBreaker }) {
				return fmt.Sprintf("texts of at most %d bytes", MaxDRYBreaker)
			}
			return ""
		}},

	// The parameters of [Text].
	{Name: "tools", From: servers, Flag: "tools", Placeholder: "JSON",
		Note: "tools that the chat template presents to the model: a JSON list, or a file with one",
		slot: field(ListJSON(""), func(s *Set) *ListJSON { return &s.Tools })},
	{Name: "tool_choice", From: servers, Flag: "tool-choice", Placeholder: "CHOICE",
		Note: "auto, none (no tools for the chat template, no calls in the text), required (the completion is one " +
			"call or more), or a JSON object that names a function, which is called once",
		slot:    field("auto", func(s *Set) *string { return &s.ToolChoice }),
		limits:  limits{text: "auto, none, required or an object that names a function"},
		allowed: func(s *Set) string { return s.allowedChoice() }},
	{Name: "parallel_tool_calls", From: servers,
		Note: "false allows at most one call of a tool; for a whole job give a column",
		slot: field(true, func(s *Set) *bool { return &s.ParallelToolCalls })},
	{Name: "documents", From: VLLM, when: condition{rows: "messages"}, Flag: "documents", Placeholder: "JSON",
		Note: "documents that the chat template gives the model: a JSON list, or a file with one",
		slot: field(ListJSON(""), func(s *Set) *ListJSON { return &s.Documents })},
	{Name: "chat_template_kwargs", From: VLLM | LlamaCpp, Flag: "chat-template-kwargs", Placeholder: "JSON",
		Note: "further variables of the chat template: a JSON object, or a file with one",
		slot: field(ObjectJSON(""), func(s *Set) *ObjectJSON { return &s.ChatTemplateKwargs })},
	{Name: "reasoning_effort", From: servers,
		Note: "the chat template's variable of this name; for a whole job give --chat-template-kwargs",
		slot: field("", func(s *Set) *string { return &s.ReasoningEffort })},
	{Name: "add_generation_prompt", From: VLLM | LlamaCpp, Flag: "add-generation-prompt",
		Note: "end messages with the opening of the answer, unless continue_final_message is true",
		slot: field(true, func(s *Set) *bool { return &s.AddGenerationPrompt })},
	{Name: "continue_final_message", From: VLLM, Flag: "continue-final-message",
		Note: "end the prompt within the last message, for the model to continue",
		slot: field(false, func(s *Set) *bool { return &s.ContinueFinalMessage })},
	{Name: "truncate_prompt_tokens", From: VLLM, Flag: "truncate-prompt-tokens", Placeholder: "TOKENS",
		Note:   "keep the last N tokens of the prompt; -1 keeps as many as leave room for max_tokens, 0 keeps all",
		slot:   field(0, func(s *Set) *int { return &s.TruncatePromptTokens }),
		limits: limits{min: -1, max: math.MaxInt32, text: "-1 or more"}},
	{Name: "skip_special_tokens", From: VLLM, Flag: "skip-special-tokens",
		Note: "leave special tokens out of the text",
		slot: field(true, func(s *Set) *bool { return &s.SkipSpecialTokens })},
	{Name: "include_stop_str_in_output", From: VLLM, Flag: "include-stop-str-in-output",
		Note: "end the text after the stop string or stop token instead of before it",
		slot: field(false, func(s *Set) *bool { return &s.IncludeStopStrInOutput })},
	{Name: "max_thinking_tokens", Flag: "max-thinking-tokens", Placeholder: "TOKENS",
		Note: "maximum tokens of reasoning, after which the mark that ends it follows; -1 has no bound",
		slot: field(-1, func(s *Set) *int { return &s.MaxThinkingTokens }), limits: limits{min: -1, max: math.MaxInt32,
			text: "-1 or more"}},
}

// ofVocabulary returns what a list must be; "" if it is valid.
func ofVocabulary(tokens []int) string {
	for _, id := range tokens {
		if id < 0 || id > math.MaxInt32 {
			return "a list of tokens of the vocabulary"
		}
	}
	return ""
}
