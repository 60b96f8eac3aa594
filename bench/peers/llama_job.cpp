// A whole job on llama.cpp's library, with as many sequences at once as there are slots, as its server does it: a slot
// that frees takes the next completion at once, and keeps what its last prompt has in common with the new one.
//
//	llama_job MODEL.gguf ROWS SLOTS THREADS
//
// ROWS has a line for each prompt: completions, tokens of each, temperature, and the prompt's token ids. Every
// completion gets all its tokens, whatever they are. Prints one JSON object.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

struct row {
	int n = 0, max_tokens = 0;
	float temperature = 0;
	std::vector<llama_token> prompt;
};

struct slot {
	const row *job = nullptr;
	int drawn = 0;
	int logits = -1;                 // where in the last batch its logits are
	std::vector<llama_token> cached; // the tokens in the KV cache
	llama_token next = 0;
	llama_sampler *sampler = nullptr;
};

static void die(const std::string &what) {
	fprintf(stderr, "llama_job: %s\n", what.c_str());
	exit(1);
}

static std::vector<row> read_rows(const char *path) {
	std::ifstream in(path);
	std::vector<row> rows;
	for (std::string line; std::getline(in, line);) {
		std::istringstream words(line);
		row r;
		words >> r.n >> r.max_tokens >> r.temperature;
		for (llama_token t; words >> t;) r.prompt.push_back(t);
		if (r.n < 1 || r.max_tokens < 1 || r.prompt.empty()) die("a bad line in " + std::string(path));
		rows.push_back(r);
	}
	if (rows.empty()) die("no rows in " + std::string(path));
	return rows;
}

static void add(llama_batch &b, llama_token token, int position, int sequence, bool logits) {
	b.token[b.n_tokens] = token;
	b.pos[b.n_tokens] = position;
	b.n_seq_id[b.n_tokens] = 1;
	b.seq_id[b.n_tokens][0] = sequence;
	b.logits[b.n_tokens] = logits;
	b.n_tokens++;
}

static double seconds_since(std::chrono::steady_clock::time_point begin) {
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main(int argc, char **argv) {
	auto begin = std::chrono::steady_clock::now();
	if (argc != 5) die("usage: llama_job MODEL.gguf ROWS SLOTS THREADS");
	std::vector<row> rows = read_rows(argv[2]);
	const int slots_wanted = atoi(argv[3]), threads = atoi(argv[4]), batch_tokens = 2048;

	llama_log_set(
		[](ggml_log_level level, const char *text, void *) {
			if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
		},
		nullptr);
	llama_backend_init();
	llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
	if (!model) die("the model can't be loaded");
	std::vector<const row *> queue;
	size_t longest = 0;
	for (const row &r : rows) {
		for (int i = 0; i < r.n; i++) queue.push_back(&r);
		longest = std::max(longest, r.prompt.size() + r.max_tokens);
	}
	llama_context_params p = llama_context_default_params();
	p.n_seq_max = slots_wanted;
	p.n_ctx = slots_wanted * ((longest + 255) / 256 * 256);
	p.n_batch = batch_tokens;
	p.n_threads = p.n_threads_batch = threads;
	llama_context *ctx = llama_init_from_model(model, p);
	if (!ctx) die("the context can't be made");
	llama_memory_t memory = llama_get_memory(ctx);
	std::vector<slot> slots(slots_wanted);
	llama_batch batch = llama_batch_init(batch_tokens, 0, 1);
	const double load_seconds = seconds_since(begin);

	begin = std::chrono::steady_clock::now();
	double first_token = 0;
	long generated = 0, prompt_run = 0, steps = 0;
	size_t started = 0, running = 0;
	while (started < queue.size() || running > 0) {
		batch.n_tokens = 0;
		for (size_t i = 0; i < slots.size(); i++) {
			slot &s = slots[i];
			s.logits = -1;
			if (!s.job) continue;
			s.logits = batch.n_tokens;
			add(batch, s.next, s.cached.size(), i, true);
			s.cached.push_back(s.next);
		}
		for (size_t i = 0; i < slots.size() && started < queue.size(); i++) {
			slot &s = slots[i];
			if (s.job) continue;
			const std::vector<llama_token> &prompt = queue[started]->prompt;
			size_t common = 0;
			while (common + 1 < prompt.size() && common < s.cached.size() && s.cached[common] == prompt[common])
				common++;
			if (batch.n_tokens > 0 && batch.n_tokens + prompt.size() - common > batch_tokens) break;
			if (prompt.size() > (size_t)batch_tokens) die("a prompt is longer than a batch");
			llama_memory_seq_rm(memory, i, common, -1);
			for (size_t k = common; k < prompt.size(); k++) add(batch, prompt[k], k, i, k + 1 == prompt.size());
			prompt_run += prompt.size() - common;
			s.cached = prompt;
			s.job = queue[started];
			s.drawn = 0;
			s.logits = batch.n_tokens - 1;
			if (s.sampler) llama_sampler_free(s.sampler);
			s.sampler = s.job->temperature > 0 ? llama_sampler_init_dist(started + 1) : llama_sampler_init_greedy();
			started++;
			running++;
		}
		if (llama_decode(ctx, batch) != 0) die("llama_decode failed");
		steps++;
		for (slot &s : slots) {
			if (s.logits < 0) continue;
			s.next = llama_sampler_sample(s.sampler, ctx, s.logits);
			generated++;
			if (first_token == 0) first_token = seconds_since(begin);
			if (++s.drawn == s.job->max_tokens) {
				s.job = nullptr;
				running--;
			}
		}
	}
	const double generate_seconds = seconds_since(begin);
	long prompt_tokens = 0;
	for (const row &r : rows) prompt_tokens += r.prompt.size();
	printf(
		"{\"load_seconds\": %.3f, \"generate_seconds\": %.3f, \"first_token_seconds\": %.3f, "
		"\"prompt_tokens\": %ld, \"prompt_tokens_run\": %ld, "
		"\"generated_tokens\": %ld, \"completions\": %zu, \"steps\": %ld}\n",
		load_seconds, generate_seconds, first_token, prompt_tokens, prompt_run, generated, queue.size(), steps);
	return 0;
}
