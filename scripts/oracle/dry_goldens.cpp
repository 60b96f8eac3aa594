// Goldens of package engine: what llama.cpp's DRY takes from logits of 0, for random texts and breakers.
//
//	g++ -std=c++17 dry_goldens.cpp -I LLAMA/include -I LLAMA/ggml/include BUILD/src/libllama.a
//	  BUILD/ggml/src/libggml*.a -fopenmp -o dry_goldens
//	for n in llama3 qwen2 spm; do
//		./dry_goldens text/tokenizer/testdata/$n.gguf 7 100 > engine/testdata/dry-$n.json
//	done
//
// LLAMA is llama.cpp's source, BUILD a static build of it: bench/peers/setup.sh makes both. Arguments: a vocabulary, a
// seed, how many cases.
#include "llama.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <random>

static void quiet(ggml_log_level, const char *, void *) {}
static std::string js(const std::string &s) {
	std::string o = "\"";
	char b[8];
	for (unsigned char c : s) {
		if (c == '"' || c == '\\') {
			o += '\\';
			o += c;
		} else if (c < 32) {
			snprintf(b, 8, "\\u%04x", c);
			o += b;
		} else o += c;
	}
	return o + "\"";
}
int main(int argc, char **argv) {
	llama_log_set(quiet, nullptr);
	auto mp = llama_model_default_params();
	mp.vocab_only = true;
	auto *m = llama_model_load_from_file(argv[1], mp);
	if (!m) {
		fprintf(stderr, "no model\n");
		return 1;
	}
	auto *v = llama_model_get_vocab(m);
	int n = llama_vocab_n_tokens(v);
	std::mt19937 r(atoi(argv[2]));
	int count = atoi(argv[3]);
	auto pick = [&](int k) { return (int)(r() % k); };
	const std::vector<std::vector<std::string>> sets = {
		{"\n", ":", "\"", "*"},
		{},
		{"\n\n"},
		{"###", "\n"},
		{"User:", "Assistant:"},
		{"\xe2\x80\x94", "\xc3\xa9"},
		{"the", " a"},
		{"<|im_end|>"},
		{"ab", "b a", "a"},
		{" "},
	};
	const char *words[] = {"the cat", " sat", " on", "the mat", "\n", "\n\n", "\n\n\n", ":", "###", "## ", "#", "User",
		"User:", " Assistant:", "A", "ssistant", "\xe2\x80\x94", "caf\xc3\xa9", " a", "ab", "b", " a b a", "<|im_end|>",
		"<", "|im", "_end|>", "\"", "*", ", ", "the cat sat on the mat", " and", "er:", "U", "s"};
	const int nw = sizeof words / sizeof *words;
	printf("[\n");
	for (int c = 0; c < count; c++) {
		auto &set = sets[c % sets.size()];
		std::vector<llama_token> toks;
		int parts = 4 + pick(30), k = 2 + pick(8), base = pick(nw);
		for (int p = 0; p < parts; p++) {
			const char *w = words[(base + pick(k) * 5) % nw];
			llama_token t[64];
			int got = llama_tokenize(v, w, strlen(w), t, 64, false, pick(2));
			for (int i = 0; i < got; i++) toks.push_back(t[i]);
		}
		int cut = toks.size() - (pick(3) ? 0 : pick(toks.size() / 2 + 1));
		toks.resize(cut < 1 ? 1 : cut);
		float mult = (const float[]){0.8f, 1, 2.5f}[pick(3)], b = (const float[]){1.75f, 1.1f, 1, 3}[pick(4)];
		int allowed = pick(4), last = (const int[]){64, 20, 1000, 7}[pick(4)];
		std::vector<const char *> cs;
		for (auto &s : set) cs.push_back(s.c_str());
		auto *s = llama_sampler_init_dry(v, mult, b, allowed, last, cs.data(), cs.size());
		for (auto t : toks) llama_sampler_accept(s, t);
		std::vector<llama_token_data> d(n);
		for (int i = 0; i < n; i++) d[i] = {i, 0, 0};
		llama_token_data_array a = {d.data(), d.size(), -1, false};
		llama_sampler_apply(s, &a);
		printf("%s{\"breakers\": [", c ? ",\n" : "");
		for (size_t i = 0; i < set.size(); i++) printf("%s%s", i ? ", " : "", js(set[i]).c_str());
		printf("], \"multiplier\": %g, \"base\": %g, \"allowed\": %d, \"last\": %d, \"tokens\": [", mult, b, allowed,
			last);
		for (size_t i = 0; i < toks.size(); i++) printf("%s%d", i ? "," : "", toks[i]);
		printf("], \"penalties\": {");
		bool first = true;
		for (size_t i = 0; i < a.size; i++)
			if (a.data[i].logit != 0) {
				printf("%s\"%d\": %.8g", first ? "" : ", ", a.data[i].id, -a.data[i].logit);
				first = false;
			}
		printf("}}");
		llama_sampler_free(s);
	}
	printf("\n]\n");
}
