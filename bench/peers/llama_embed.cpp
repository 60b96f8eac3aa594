// Texts to vectors with llama.cpp's library, as its example of embeddings does it: whole texts in batches of so many
// tokens, pooled as the file says, and normalized.
//
//	llama_embed MODEL.gguf TEXTS THREADS
//
// TEXTS has one text a line; one that is longer than the model's window is cut. Prints one JSON object.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "llama.h"

static void die(const std::string &what) {
	fprintf(stderr, "llama_embed: %s\n", what.c_str());
	exit(1);
}

int main(int argc, char **argv) {
	if (argc != 4) die("usage: llama_embed MODEL.gguf TEXTS THREADS");
	const int threads = atoi(argv[3]), batch_tokens = 2048, sequences = 64;
	std::vector<std::string> texts;
	std::ifstream in(argv[2]);
	for (std::string line; std::getline(in, line);) texts.push_back(line);
	llama_log_set(
		[](ggml_log_level level, const char *text, void *) {
			if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
		},
		nullptr);
	llama_backend_init();
	llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
	if (!model) die("the model can't be loaded");
	const llama_vocab *vocab = llama_model_get_vocab(model);
	llama_context_params p = llama_context_default_params();
	p.embeddings = true;
	p.n_seq_max = sequences;
	p.n_ctx = p.n_batch = p.n_ubatch = batch_tokens;
	p.kv_unified = true;
	p.n_threads = p.n_threads_batch = threads;
	llama_context *context = llama_init_from_model(model, p);
	if (!context) die("no context");
	const int width = llama_model_n_embd(model), window = std::min(256, llama_model_n_ctx_train(model));
	llama_batch batch = llama_batch_init(batch_tokens, 0, 1);
	std::vector<float> first;
	size_t tokens = 0;
	int held = 0; // texts in the batch
	auto flush = [&](bool count) {
		if (held == 0) return;
		if (llama_encode(context, batch) != 0) die("a batch failed");
		for (int s = 0; s < held; s++) {
			const float *v = llama_get_embeddings_seq(context, s);
			if (!v) die("a text has no vector");
			double sum = 0;
			for (int i = 0; i < width; i++) sum += double(v[i]) * v[i];
			std::vector<float> unit(v, v + width);
			for (float &x : unit) x /= float(std::sqrt(sum));
			if (first.empty() && count) first = unit;
		}
		if (count) tokens += batch.n_tokens;
		batch.n_tokens = held = 0;
	};
	auto run = [&](size_t n, bool count) {
		std::vector<llama_token> ids;
		for (size_t t = 0; t < n; t++) {
			ids.resize(texts[t].size() + 8);
			int have = llama_tokenize(vocab, texts[t].data(), texts[t].size(), ids.data(), ids.size(), true, true);
			if (have < 1) die("a text has no tokens");
			if (have > window) ids[window - 1] = ids[have - 1], have = window;
			if (batch.n_tokens + have > batch_tokens || held == sequences) flush(count);
			for (int i = 0; i < have; i++) {
				const int at = batch.n_tokens++;
				batch.token[at] = ids[i], batch.pos[at] = i, batch.n_seq_id[at] = 1, batch.seq_id[at][0] = held;
				batch.logits[at] = true;
			}
			held++;
		}
		flush(count);
	};
	run(std::min<size_t>(64, texts.size()), false);
	const auto begin = std::chrono::steady_clock::now();
	const clock_t processor = clock();
	run(texts.size(), true);
	printf("{\"seconds\": %g, \"processor_seconds\": %g, \"tokens\": %zu, \"first\": [%g, %g, %g, %g]}\n",
		std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
		double(clock() - processor) / CLOCKS_PER_SEC, tokens, first[0], first[1], first[2], first[3]);
}
