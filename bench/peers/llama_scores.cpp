// The log-probabilities that llama.cpp's library gives to tokens of texts, each behind those before it.
//
//	llama_scores MODEL.gguf ROWS THREADS [f32]
//
// ROWS has a line of token ids for each text. With f32, keys and values are held and attended to in float32. Prints a
// JSON object for each text: logprobs of all tokens but the first, and best, the likeliest token in the place of each.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

static void die(const char *what) {
	fprintf(stderr, "llama_scores: %s\n", what);
	exit(1);
}

int main(int argc, char **argv) {
	const bool wide = argc == 5 && !strcmp(argv[4], "f32");
	if (argc != 4 && !wide) die("usage: llama_scores MODEL.gguf ROWS THREADS [f32]");
	llama_log_set(
		[](ggml_log_level level, const char *text, void *) {
			if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
		},
		nullptr);
	llama_backend_init();
	llama_model_params how = llama_model_default_params();
	how.use_extra_bufts = false; // its AMX form of Q4_1 ends with a fault on a Xeon
	llama_model *model = llama_model_load_from_file(argv[1], how);
	if (!model) die("the model can't be loaded");
	llama_context_params p = llama_context_default_params();
	p.n_ctx = p.n_batch = 2048;
	p.n_threads = p.n_threads_batch = atoi(argv[3]);
	if (wide) {
		p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
		p.type_k = p.type_v = GGML_TYPE_F32;
	}
	llama_context *ctx = llama_init_from_model(model, p);
	if (!ctx) die("the context can't be made");
	const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
	llama_batch batch = llama_batch_init(2048, 0, 1);
	std::ifstream in(argv[2]);
	for (std::string line; std::getline(in, line);) {
		std::istringstream words(line);
		std::vector<llama_token> tokens;
		for (llama_token t; words >> t;) tokens.push_back(t);
		if (tokens.size() < 2 || tokens.size() > 2048) die("a text has fewer than 2 or more than 2,048 tokens");
		llama_memory_clear(llama_get_memory(ctx), true);
		batch.n_tokens = 0;
		for (llama_token t : tokens) {
			const int i = batch.n_tokens++;
			batch.token[i] = t;
			batch.pos[i] = i;
			batch.n_seq_id[i] = 1;
			batch.seq_id[i][0] = 0;
			batch.logits[i] = true;
		}
		if (llama_decode(ctx, batch) != 0) die("llama_decode failed");
		std::string scores, best;
		for (size_t i = 0; i + 1 < tokens.size(); i++) {
			const float *logits = llama_get_logits_ith(ctx, i), *most = std::max_element(logits, logits + vocabulary);
			double sum = 0;
			for (int t = 0; t < vocabulary; t++) sum += std::exp((double)logits[t] - *most);
			const char *comma = i ? ", " : "";
			char text[64];
			snprintf(text, sizeof text, "%s%.9g", comma, logits[tokens[i + 1]] - *most - std::log(sum));
			scores += text;
			snprintf(text, sizeof text, "%s%d", comma, (int)(most - logits));
			best += text;
		}
		printf("{\"logprobs\": [%s], \"best\": [%s]}\n", scores.c_str(), best.c_str());
	}
}
