package parameter

import (
	"slices"
	"strings"
)

// The notes on parameters that are accepted.
const (
	bookkeeping = "bookkeeping or transport; it cannot change a completion"
	placement   = "how an engine does its work, not what it generates"
	response    = "which parts of a response are sent, or in which form"
	speculation = "speculative decoding; it only changes the speed"
)

// only returns the note of a parameter that matters only together with one that is rejected.
func only(with string) string { return "it matters only with " + with + ", which Quire refuses" }

// Remedies.
const (
	membersAsColumns = "write its members as columns of their own"
	takenApart       = "--columns splits the text of all rows"
	marksOfTemplate  = "the chat template has the marks, or --reasoning-parser"
	fillIn           = "give a prompt with the model's own tokens for filling in"
	chosenOnly       = "columns logprobs and top_logprobs have each generated token and the likeliest ones"
)

// Neutral values.
var (
	zero    = []string{"0"}
	one     = []string{"1"}
	isFalse = []string{"false"}
	isTrue  = []string{"true"}
)

// table is in the order of the documentation: Quire's own parameters, other names for them, parameters that have
// values without effect, and accepted ones.
var table = func() []Parameter {
	all := slices.Concat(own, judged)
	for i := range own {
		all[i].Sets, all[i].place = all[i].Name, i
	}
	for _, group := range passing {
		for name := range strings.FieldsSeq(group.names) {
			all = append(all, Parameter{Name: name, From: group.from, passes: true, Note: group.note})
		}
	}
	return all
}()

// judged are other names for Quire's own parameters, and parameters that are judged by their value.
var judged = []Parameter{
	{Name: "n_generations", Sets: "n", Note: "as the flag is called"},
	{Name: "n_cmpl", Sets: "n", From: LlamaCpp},
	{Name: "num_return_sequences", Sets: "n", From: Transformers},
	{Name: "max_completion_tokens", Sets: "max_tokens", From: servers},
	{Name: "max_output_tokens", Sets: "max_tokens", From: OpenAI, Note: "the Responses API"},
	{Name: "max_new_tokens", Sets: "max_tokens", From: Transformers},
	{Name: "n_predict", Sets: "max_tokens", From: LlamaCpp, Note: "-1, for no limit, is refused: give a number"},
	{Name: "min_new_tokens", Sets: "min_tokens", From: Transformers},
	{Name: "stop_sequences", Sets: "stop"},
	{Name: "stop_strings", Sets: "stop", From: Transformers},
	{Name: "do_sample", Sets: "temperature", From: Transformers, neutral: isTrue,
		maps: mapping{values: map[string]string{"false": "0"}, clash: map[string]string{"true": "0"}},
		Note: "false is temperature 0; true is an error at temperature 0"},

	// Penalties and biases.
	{Name: "repeat_penalty", From: LlamaCpp, neutral: one},
	{Name: "repeat_last_n", From: LlamaCpp, neutral: []string{"-1"}, when: condition{matters: func(s *Set) bool {
		return s.Penalized()
	}}, Note: "no effect without a penalty; penalties look at all tokens"},
	{Name: "encoder_repetition_penalty", From: Transformers, neutral: one},
	{Name: "length_penalty", From: VLLM | Transformers, neutral: one},
	{Name: "exponential_decay_length_penalty", From: Transformers},
	{Name: "diversity_penalty", From: Transformers, neutral: zero},
	{Name: "encoder_no_repeat_ngram_size", From: Transformers, neutral: zero},
	{Name: "repetition_detection", From: VLLM},
	{Name: "sequence_bias", From: Transformers},
	{Name: "bad_words_ids", From: Transformers},
	{Name: "suppress_tokens", From: Transformers},
	{Name: "begin_suppress_tokens", From: Transformers},
	{Name: "forced_bos_token_id", From: Transformers},
	{Name: "forced_eos_token_id", From: Transformers},
	{Name: "forced_decoder_ids", From: Transformers},
	{Name: "force_words_ids", From: Transformers},
	{Name: "trace_decode_token_ids", From: VLLM},
	{Name: "watermarking", From: VLLM, neutral: isFalse},
	{Name: "watermarking_config", From: Transformers},
	{Name: "remove_invalid_values", From: Transformers, neutral: isFalse},

	// Ways to choose tokens and completions.
	{Name: "best_of", From: OpenAI | VLLM, neutral: one, when: condition{equal: "n"},
		Note: "also no effect if it equals the row's n"},
	{Name: "use_beam_search", From: VLLM, neutral: isFalse},
	{Name: "num_beams", From: Transformers, neutral: one},
	{Name: "num_beam_groups", From: Transformers, neutral: one},
	{Name: "penalty_alpha", From: Transformers, neutral: zero},
	{Name: "dola_layers", From: Transformers},
	{Name: "guidance_scale", From: Transformers, neutral: one},
	{Name: "token_healing", From: Transformers, neutral: isFalse},
	{Name: "top_h", From: Transformers},
	{Name: "tfs_z", From: LlamaCpp, neutral: one},
	{Name: "epsilon_cutoff", From: Transformers, neutral: zero},
	{Name: "eta_cutoff", From: Transformers, neutral: zero},
	{Name: "min_keep", From: LlamaCpp, neutral: []string{"0", "1"}},
	{Name: "dynatemp_range", From: LlamaCpp, neutral: zero},
	{Name: "mirostat", From: LlamaCpp, neutral: zero},
	{Name: "adaptive_target", From: LlamaCpp, neutral: []string{"-1"}},
	{Name: "samplers", From: LlamaCpp, strict: true},
	{Name: "logits_processors", From: VLLM},
	{Name: "lora", From: LlamaCpp, Note: "give adapter"},
	{Name: "lora_request", From: VLLM, Note: "give adapter"},

	// Structured output.
	{Name: "response_format", From: servers, Sets: "structured_outputs",
		Note: "of type text, json_object or json_schema"},
	{Name: "guided_decoding", From: VLLM},
	{Name: "guided_json", From: VLLM, Sets: "structured_outputs"},
	{Name: "guided_regex", From: VLLM, Sets: "structured_outputs"},
	{Name: "guided_choice", From: VLLM, Sets: "structured_outputs"},
	{Name: "guided_grammar", From: VLLM, Sets: "structured_outputs"},
	{Name: "guided_json_object", From: VLLM, Sets: "structured_outputs"},
	{Name: "guided_whitespace_pattern", From: VLLM, strict: true, when: condition{matters: func(s *Set) bool {
		kind := s.StructuredOutputs.Kind
		return kind == SchemaStructure || kind == ObjectStructure
	}}, Note: "no effect without a JSON structure; give structured_outputs with " + compactName},
	{Name: "structural_tag", From: VLLM},
	{Name: "grammar", From: LlamaCpp, Sets: "structured_outputs", Note: "GBNF"},
	{Name: "grammar_lazy", From: LlamaCpp, neutral: isFalse},
	{Name: "grammar_triggers", From: LlamaCpp},
	{Name: "json_schema", From: LlamaCpp, Sets: "structured_outputs"},
	{Name: "n_indent", From: LlamaCpp, neutral: zero},

	// Where a completion ends.
	{Name: "min_length", From: Transformers, neutral: zero},
	{Name: "max_length", From: Transformers, Note: "it counts the prompt too: give max_tokens"},
	{Name: "max_time", From: Transformers},
	{Name: "t_max_predict_ms", From: LlamaCpp, neutral: zero},
	{Name: "eos_token_id", From: Transformers, Note: "the model's files have it"},
	{Name: "thinking_token_budget", From: VLLM, Sets: "max_thinking_tokens"},
	{Name: "reasoning_budget_tokens", From: LlamaCpp, Sets: "max_thinking_tokens"},
	{Name: "reasoning_budget_message", From: LlamaCpp, Note: "max_thinking_tokens generates only the mark"},
	{Name: "reasoning_budget_start_tag", From: LlamaCpp, Note: marksOfTemplate},
	{Name: "reasoning_budget_end_tag", From: LlamaCpp, Note: marksOfTemplate},
	{Name: "reasoning_budget_arm_immediately", From: LlamaCpp, neutral: isFalse},

	// How the prompt is made.
	{Name: "functions", From: OpenAI, Note: "give tools"},
	{Name: "function_call", From: OpenAI, neutral: []string{`"none"`, `"auto"`}, Note: "give tool_choice"},
	{Name: "chat_template", From: VLLM, Note: "give --chat-template"},
	{Name: "add_special_tokens", From: VLLM, when: condition{rows: "prompt"}, neutral: isTrue,
		Note: "give prompt_token_ids"},
	{Name: "add_special_tokens", From: VLLM, when: condition{rows: "messages"}, neutral: isFalse,
		Note: "give prompt_token_ids"},
	{Name: "echo", From: OpenAI | VLLM, neutral: isFalse, Note: "the output has the prompt in the input's columns"},
	{Name: "suffix", From: OpenAI | VLLM, when: condition{rows: "prompt"}, Note: fillIn},
	{Name: "input_prefix", From: LlamaCpp, when: condition{rows: "prompt"}, Note: fillIn},
	{Name: "input_suffix", From: LlamaCpp, when: condition{rows: "prompt"}, Note: fillIn},
	{Name: "input_extra", From: LlamaCpp, when: condition{rows: "prompt"}, Note: fillIn},
	{Name: "truncation_side", From: VLLM, neutral: []string{`"left"`}, Note: "truncate_prompt_tokens keeps the end"},
	{Name: "prompt_embeds", From: VLLM},
	{Name: "image_data", From: LlamaCpp},
	{Name: "multi_modal_data", From: VLLM},
	{Name: "mm_processor_kwargs", From: VLLM},
	{Name: "modalities", From: OpenAI, neutral: []string{`["text"]`}},
	{Name: "verbosity", From: OpenAI, neutral: []string{`"medium"`}, Note: "ask for it in the prompt"},
	{Name: "web_search_options", From: OpenAI},
	{Name: "moderation", From: OpenAI},
	{Name: "previous_response_id", From: OpenAI, Note: "give the whole conversation as messages"},

	// What is returned of a completion.
	{Name: "logprobs", Sets: "top_logprobs", From: servers, neutral: []string{"false", "true"}, dataList: true,
		Note: "a number as in OpenAI's completions and vLLM; with true, as in OpenAI's chat, top_logprobs is the " +
			"number"},
	{Name: "n_probs", Sets: "top_logprobs", From: LlamaCpp},
	{Name: "logprob_token_ids", From: VLLM, Note: chosenOnly},
	{Name: "prompt_logprob_token_ids", From: VLLM, Note: chosenOnly},
	{Name: "prompt_logprob_start", From: VLLM, neutral: zero, Note: "prompt_logprobs are of all tokens"},
	{Name: "post_sampling_probs", From: LlamaCpp, neutral: isFalse, Note: "log-probabilities are before temperature"},
	{Name: "output_scores", From: Transformers, neutral: isFalse, Note: chosenOnly},
	{Name: "output_logits", From: Transformers, neutral: isFalse, Note: chosenOnly},
	{Name: "output_attentions", From: Transformers, neutral: isFalse},
	{Name: "output_hidden_states", From: Transformers, neutral: isFalse},
	{Name: "detokenize", From: VLLM, neutral: isTrue},
	{Name: "include_reasoning", From: VLLM, neutral: isTrue, Note: takenApart},
	{Name: "reasoning_format", From: LlamaCpp, neutral: []string{`"none"`}, Note: takenApart},
	{Name: "parse_tool_calls", From: LlamaCpp, neutral: isFalse, Note: takenApart},

	// Parameters within a parameter.
	{Name: "sampling_params", From: VLLM, Note: membersAsColumns},
	{Name: "generation_config", From: Transformers, Note: membersAsColumns},
	{Name: "generation_kwargs", From: Transformers, Note: membersAsColumns},
	{Name: "extra_body", From: OpenAI, Note: membersAsColumns},
	{Name: "extra_args", From: VLLM, Note: membersAsColumns},
	{Name: "vllm_xargs", From: VLLM, Note: membersAsColumns},
}

// passing are parameters that cannot change a completion of Quire: columns with these names belong to the user.
var passing = []struct {
	note  string
	from  Engine
	names string
}{
	{"the model of --model runs every row", servers, "model"},
	{bookkeeping, OpenAI | VLLM, "user"},
	{bookkeeping, OpenAI, "metadata store service_tier safety_identifier"},
	{bookkeeping, VLLM, "request_id session_id stream_interval output_kind output_text_buffer_length skip_clone"},
	{bookkeeping, Transformers, "transformers_version"},
	{bookkeeping, servers, "stream stream_options"},
	{bookkeeping, LlamaCpp, "sse_ping_interval"},
	{placement, VLLM, `
		kv_transfer_params ec_transfer_params priority cache_salt skip_reading_prefix_cache
		guided_decoding_backend`},
	{placement, OpenAI, "prompt_cache_key prompt_cache_options prompt_cache_retention"},
	{placement, LlamaCpp, "cache_prompt n_cache_reuse id_slot slot_id backend_sampling"},
	{placement, Transformers, `
		use_cache cache_implementation cache_config return_legacy_cache prefill_chunk_size compile_config
		disable_compile low_memory`},
	{"Quire drops no tokens of a context: a row that does not fit is an error", LlamaCpp, "n_keep n_discard"},
	{speculation, OpenAI, "prediction"},
	{speculation, LlamaCpp, `
		speculative.n_max speculative.n_min speculative.p_min speculative.type speculative.ngram_size_n
		speculative.ngram_size_m speculative.ngram_m_hits`},
	{speculation, Transformers, `
		is_assistant num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold
		assistant_early_exit assistant_lookbehind target_lookbehind prompt_lookup_num_tokens
		max_matching_ngram_size`},
	{"the column token_ids of the output has them", LlamaCpp, "return_tokens"},
	{"the column token_ids of the output has them", VLLM, "return_token_ids"},
	{response, VLLM, `
		return_tokens_as_token_ids return_token_offsets return_prompt_text return_mm_kwargs flat_logprobs
		routed_experts_prompt_start`},
	{response, LlamaCpp, "return_progress response_fields timings_per_token"},
	{response, Transformers, "return_dict_in_generate"},
	{"text has special tokens as the tokenizer's decoder writes them", VLLM, "spaces_between_special_tokens"},
	{only("beam search"), VLLM | Transformers, "early_stopping"},
	{only("beam search"), Transformers, "renormalize_logits"},
	{"Python objects, which a row cannot contain", Transformers, "constraints"},
	{"a job bounds turns, not calls", OpenAI, "max_tool_calls"},
	{only("modalities other than text"), OpenAI, "audio"},
	{"prompts are text", VLLM, "media_io_kwargs"},
	{only("repeat_penalty"), LlamaCpp, "penalize_nl penalty_prompt"},
	{only("dynatemp_range"), LlamaCpp, "dynatemp_exponent"},
	{only("mirostat"), LlamaCpp, "mirostat_tau mirostat_eta"},
	{only("adaptive_target"), LlamaCpp, "adaptive_decay"},
	{only("grammar_triggers"), LlamaCpp, "preserved_tokens"},
	{only("parse_tool_calls"), LlamaCpp, "chat_format"},
	{only("reasoning_format"), LlamaCpp, "thinking_forced_open"},
	{"prompts are not padded", Transformers, "pad_token_id"},
	{"the model's files have it", Transformers, "bos_token_id"},
	{"only for models with an encoder, which are refused", Transformers, "decoder_start_token_id"},
}
