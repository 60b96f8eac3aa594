package parameter

import "strings"

// Foreign is a parameter of an engine whose API the table does not cover. A row's column of that name belongs to the
// user.
type Foreign struct {
	Engines string // the engines that have it
	Instead string // Quire's name for it, "" if it has none
}

// LookupForeign returns the parameter of another engine that has the name of a user's column.
func LookupForeign(column string) (f Foreign, ok bool) {
	if len(byName[column]) > 0 {
		return f, false
	}
	for _, group := range foreign {
		if instead, ok := group.renamed[column]; ok {
			return Foreign{group.engines, instead}, true
		}
		for name := range strings.FieldsSeq(group.others) {
			if name == column {
				return Foreign{Engines: group.engines}, true
			}
		}
	}
	return f, false
}

// foreign are names that data seldom has.
var foreign = []struct {
	engines string
	renamed map[string]string // maps to names of the table
	others  string            // parameters that Quire does not have
}{
	{"SGLang", map[string]string{"regex": "guided_regex", "ebnf": "guided_grammar",
		"no_stop_trim": "include_stop_str_in_output", "input_ids": "prompt_token_ids",
		"top_logprobs_num": "top_logprobs", "return_logprob": "logprobs"}, `
		stop_regex logprob_start_len token_ids_logprob custom_logit_processor custom_params lora_path
		return_hidden_states`},
	{"ExLlama and text-generation-webui", map[string]string{"ban_eos_token": "ignore_eos",
		"grammar_string": "guided_grammar"}, `
		top_a smoothing_factor smoothing_curve cfg_scale negative_prompt temperature_last add_bos_token
		repetition_penalty_range repetition_range mirostat_mode`},
	{"text-generation-webui", map[string]string{"stopping_strings": "stop", "custom_stopping_strings": "stop",
		"custom_token_bans": "logit_bias", "truncation_length": "truncate_prompt_tokens"}, `
		auto_max_new_tokens dynamic_temperature dynatemp_low dynatemp_high sampler_priority`},
	{"ExLlama", map[string]string{"token_repetition_penalty": "repetition_penalty",
		"token_repetition_penalty_max": "repetition_penalty", "regex_pattern": "guided_regex",
		"banned_strings": "bad_words", "banned_tokens": "logit_bias", "dry_range": "dry_penalty_last_n"}, `
		token_repetition_range_max token_repetition_range_decay repetition_decay penalty_range max_temp min_temp
		temp_exponent logit_threshold`},
	{"Ollama", map[string]string{"num_predict": "max_tokens"}, `num_ctx`},
	{"Mistral and TensorRT-LLM", map[string]string{"random_seed": "seed"}, `safe_prompt`},
	{"TensorRT-LLM", map[string]string{"request_output_len": "max_tokens", "runtime_top_k": "top_k",
		"runtime_top_p": "top_p", "stop_words_list": "stop", "bad_words_list": "bad_words"}, `
		beam_width beam_search_diversity_rate len_penalty top_p_min top_p_decay top_p_reset_ids`},
	{"Text Generation Inference", map[string]string{"truncate": "truncate_prompt_tokens",
		"top_n_tokens": "top_logprobs"}, `decoder_input_details return_full_text`},
	{"Anthropic", map[string]string{"max_tokens_to_sample": "max_tokens"}, ``},
	{"Gemini", map[string]string{"candidate_count": "n", "candidateCount": "n", "response_schema": "guided_json",
		"responseSchema": "guided_json"}, `response_mime_type responseMimeType`},
	{"Amazon Bedrock", map[string]string{"max_gen_len": "max_tokens", "maxTokenCount": "max_tokens"}, ``},
	{"NeMo", map[string]string{"tokens_to_generate": "max_tokens", "end_strings": "stop"}, ``},
	{"CTranslate2", map[string]string{"sampling_topk": "top_k", "sampling_topp": "top_p",
		"sampling_temperature": "temperature"}, ``},
	{"MLX", nil, `repetition_context_size max_kv_size`},
	{"KoboldAI", map[string]string{"rep_pen": "repetition_penalty", "stop_sequence": "stop", "genamt": "max_tokens"}, `
		rep_pen_range rep_pen_slope sampler_order max_context_length`},
}
