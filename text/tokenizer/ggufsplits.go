package tokenizer

import "github.com/quire/quire/text/tokenizer/pretoken"

import "golang.org/x/text/unicode/norm"

// ggufSplit is the components that a value of tokenizer.ggml.pre stands for, as in the tokenizer.json of the model
// family.
type ggufSplit struct {
	pre          func() ([]pretoken.Splitter, error)
	normalize    pretoken.Normalizer
	ignoreMerges bool
	addBOS       bool // if the file has no add_bos_token
	marked       bool // spaces are written as marks, and text is not in the byte-level alphabet
}

func (s ggufSplit) level() bool { return !s.marked }

// The split patterns that have no scanner, as tokenizer.json spells them.
const (
	upper = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	apart = `[^\r\n\p{L}\p{N}]?`
	tense = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`

	patternTekken = apart + upper + `*` + lower + `+|` + apart + upper + `+` + lower + `*` +
		`|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternGPT4o = apart + upper + `*` + lower + `+` + tense + `?|` + apart + upper + `+` + lower + `*` + tense + `?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	upperKimi   = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}-[\p{Han}]]`
	lowerKimi   = `[\p{Ll}\p{Lm}\p{Lo}\p{M}-[\p{Han}]]`
	patternKimi = `\p{Han}+|` + apart + upperKimi + `*` + lowerKimi + `+` + tense + `?|` +
		apart + upperKimi + `+` + lowerKimi + `*` + tense + `?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternCL100K = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|` +
		`\s*[\r\n]|\s+(?!\S)|\s`
	patternQwen35 = tense + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|` +
		`\s+(?!\S)|\s+`
	patternDeepSeek3 = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
		`|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternBloom   = ` ?[^(\s|.,!?…。，、।۔،)]+`
	patternBailing = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+` +
		`|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	patternSeedCoder = tense + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternExaoneMoE = tense +
		`|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|` +
		`\s*[\r\n]|\s+(?!\S)|\s+`
	patternMiniCPM5 = tense + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternCJK      = `[一-龥぀-ゟ゠-ヿ]+`
	patternThrees   = `\p{N}{1,3}`
	patternLetters  = "\\s?[" +
		"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-" +
		"\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-" +
		"\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf" +
		"\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-" +
		"\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc" +
		"\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115" +
		"\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e" +
		"\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-" +
		"\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a" +
		"\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-" +
		"\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943" + "]+"
)

// splitBy splits by one pattern after the other.
func splitBy(patterns ...string) func() ([]pretoken.Splitter, error) {
	return func() ([]pretoken.Splitter, error) {
		var steps []pretoken.Splitter
		for _, pattern := range patterns {
			step, err := pretoken.Isolate(pattern)
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
		return steps, nil
	}
}

// digitsThenGPT2 makes each digit a piece and splits the rest as GPT-2 does.
func digitsThenGPT2() ([]pretoken.Splitter, error) {
	return []pretoken.Splitter{pretoken.Digits(true), pretoken.GPT2}, nil
}

func unsplit() ([]pretoken.Splitter, error) { return nil, nil }

// falconSplit has the order of falcon's tokenizer.json: punctuation, GPT-2, digits by threes.
func falconSplit() ([]pretoken.Splitter, error) {
	signs, err := pretoken.Punctuation("Contiguous")
	if err != nil {
		return nil, err
	}
	threes, err := splitBy(`[0-9][0-9][0-9]`)()
	return append([]pretoken.Splitter{signs, pretoken.GPT2}, threes...), err
}

var (
	nfc = norm.NFC.String

	splitGPT2     = ggufSplit{pre: splitBy(pretoken.PatternGPT2)}
	splitNeoX     = ggufSplit{pre: splitBy(pretoken.PatternGPT2), normalize: nfc}
	splitDigits   = ggufSplit{pre: digitsThenGPT2}
	splitLlama3   = ggufSplit{pre: splitBy(pretoken.PatternLlama3), ignoreMerges: true, addBOS: true}
	splitCL100K   = ggufSplit{pre: splitBy(pretoken.PatternLlama3)}
	splitGLM4     = ggufSplit{pre: splitBy(pretoken.PatternLlama3), ignoreMerges: true}
	splitQwen2    = ggufSplit{pre: splitBy(pretoken.PatternQwen2), normalize: nfc}
	splitPlain    = ggufSplit{pre: splitBy(pretoken.PatternQwen2)}
	splitGPT4o    = ggufSplit{pre: splitBy(patternGPT4o)}
	splitBloom    = ggufSplit{pre: splitBy(patternBloom)}
	splitBailing  = ggufSplit{pre: splitBy(patternBailing)}
	splitDeepSeek = ggufSplit{pre: splitBy(patternThrees, patternCJK, patternDeepSeek3)}
	splitGemma    = ggufSplit{pre: unsplit, normalize: pretoken.Replace(" ", spaceMark), marked: true}
)

// ggufSplits are the splits by llama.cpp's names. It lacks "afmoe", "chameleon", "superbpe" and others, whose models
// are not served, such as embedding models.
var ggufSplits = map[string]ggufSplit{
	"":        splitGPT2, // files older than the key; llama.cpp's fallback, too
	"default": splitGPT2, "gpt-2": splitGPT2, "phi-2": splitGPT2, "gigachat": splitGPT2, "a.x-4.0": splitGPT2,
	"mellum": splitGPT2, "exaone4": splitGPT2, "jais": splitGPT2, "trillion": splitGPT2, "granite-docling": splitGPT2,
	"olmo": splitNeoX, "mpt": splitNeoX,
	"llama3": splitLlama3, "llama-v3": splitLlama3, "llama-bpe": splitLlama3, "falcon3": splitLlama3,
	"falcon-h1": splitLlama3, "pixtral": splitLlama3, "midm-2.0": splitLlama3, "lfm2": splitLlama3,
	"dbrx": splitCL100K, "smaug-bpe": splitCL100K, "chatglm-bpe": splitCL100K,
	"glm4": splitGLM4, "glm5": splitGLM4,
	"qwen2": splitQwen2, "deepseek-r1-qwen": splitQwen2, "kormo": splitQwen2, "megrez": splitQwen2,
	"stablelm2": splitQwen2,
	"hunyuan":   splitPlain, "solar-open": splitPlain, "grok-2": splitPlain,
	"qwen35": {pre: splitBy(patternQwen35), normalize: nfc},
	"tekken": {pre: splitBy(patternTekken), ignoreMerges: true, addBOS: true},
	"gpt-4o": splitGPT4o, "llama4": splitGPT4o, "kanana2": splitGPT4o, "minimax-m2": splitGPT4o,
	"smollm": splitDigits, "starcoder": splitDigits, "refact": splitDigits, "codeshell": splitDigits,
	"exaone": splitDigits, "minerva-7b": splitDigits, "mellum2": splitDigits,
	"command-r": {pre: digitsThenGPT2, normalize: nfc},
	"falcon":    {pre: falconSplit},
	"deepseek-llm": {pre: splitBy(`[\r\n]`, patternLetters,
		`\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+$`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}+`)},
	"deepseek-coder": {pre: splitBy(`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`)},
	"deepseek-v3":    splitDeepSeek, "hunyuan-dense": splitDeepSeek, "hy_v4": splitDeepSeek, "joyai-llm": splitDeepSeek,
	"poro-chat": splitBloom, "bloom": splitBloom, "gpt3-finnish": splitBloom,
	"viking":     {pre: splitBy(patternBloom, `\p{N}`)},
	"bailingmoe": splitBailing, "bailingmoe2": splitBailing, "llada-moe": splitBailing,
	"seed-coder": {pre: splitBy(patternSeedCoder)},
	"exaone-moe": {pre: splitBy(patternExaoneMoE)},
	"kimi-k2":    {pre: splitBy(patternKimi), ignoreMerges: true},
	"minicpm5":   {pre: splitBy(patternThrees, patternMiniCPM5), ignoreMerges: true},
	"gemma4":     splitGemma, "sarvam-moe": splitGemma,
}
