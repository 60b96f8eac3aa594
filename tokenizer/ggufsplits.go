package tokenizer

import "golang.org/x/text/unicode/norm"

// ggufSplit is what a value of tokenizer.ggml.pre stands for: the components of
// the model family's own tokenizer.json.
type ggufSplit struct {
	pre          func() ([]preTokenizer, error)
	normalize    normalizer
	ignoreMerges bool
	addBOS       bool // where the file has no add_bos_token
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
	patternExaoneMoE = tense + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|` +
		`\s*[\r\n]|\s+(?!\S)|\s+`
	patternMiniCPM5 = tense + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternCJK      = `[一-龥぀-ゟ゠-ヿ]+`
	patternThrees   = `\p{N}{1,3}`
	patternLetters  = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ` +
		`Ὗ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ` +
		`𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`
)

// splitBy cuts by one pattern after the other.
func splitBy(patterns ...string) func() ([]preTokenizer, error) {
	return func() ([]preTokenizer, error) {
		var steps []preTokenizer
		for _, pattern := range patterns {
			step, err := newSplit(preTokenizerJSON{Behavior: "Isolated", Pattern: patternJSON{Regex: &pattern}})
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
		return steps, nil
	}
}

// digitsThenGPT2 sets each digit apart and cuts the rest as GPT-2 does.
func digitsThenGPT2() ([]preTokenizer, error) {
	return []preTokenizer{digits(true), scanAll(scanGPT2)}, nil
}

func unsplit() ([]preTokenizer, error) { return nil, nil }

// falcon's is the order of its tokenizer.json: punctuation, GPT-2, digits by threes.
func falconSplit() ([]preTokenizer, error) {
	signs := func(out []piece, p piece) ([]piece, error) {
		return contiguous.apply(out, p, spansOf(p.text, isBertPunctuation), false), nil
	}
	threes, err := splitBy(`[0-9][0-9][0-9]`)()
	return append([]preTokenizer{signs, scanAll(scanGPT2)}, threes...), err
}

var (
	nfc = norm.NFC.String

	splitGPT2     = ggufSplit{pre: splitBy(patternGPT2)}
	splitNeoX     = ggufSplit{pre: splitBy(patternGPT2), normalize: nfc}
	splitDigits   = ggufSplit{pre: digitsThenGPT2}
	splitLlama3   = ggufSplit{pre: splitBy(patternLlama3), ignoreMerges: true, addBOS: true}
	splitCL100K   = ggufSplit{pre: splitBy(patternLlama3)}
	splitGLM4     = ggufSplit{pre: splitBy(patternLlama3), ignoreMerges: true}
	splitQwen2    = ggufSplit{pre: splitBy(patternQwen2), normalize: nfc}
	splitPlain    = ggufSplit{pre: splitBy(patternQwen2)}
	splitGPT4o    = ggufSplit{pre: splitBy(patternGPT4o)}
	splitBloom    = ggufSplit{pre: splitBy(patternBloom)}
	splitBailing  = ggufSplit{pre: splitBy(patternBailing)}
	splitDeepSeek = ggufSplit{pre: splitBy(patternThrees, patternCJK, patternDeepSeek3)}
	splitGemma    = ggufSplit{pre: unsplit, normalize: replace(" ", spaceMark), marked: true}
)

// ggufSplits has what llama.cpp names so; "kimi-k2", "afmoe", "chameleon", "superbpe" and those of embedding models
// are not in it.
var ggufSplits = map[string]ggufSplit{
	"":        splitGPT2, // files from before the key; llama.cpp's own fallback
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
	"minicpm5":   {pre: splitBy(patternThrees, patternMiniCPM5), ignoreMerges: true},
	"gemma4":     splitGemma, "sarvam-moe": splitGemma,
}
