package smoke

import (
	"context"
	"os"
	"path/filepath"

	"github.com/quire/quire/backend"
)

// parts are the parts in their order: what is right comes before what is fast.
func parts() []part {
	return []part{
		{name: "machine", share: 30, about: "opens the client; versions, devices, memory", do: machine},
		{name: "ahead", share: 20, about: "takes the programs that pack --topology compiled ahead", do: ahead,
			lacks: func(s *session) string {
				if _, err := os.Stat(filepath.Join(s.folder, programsFolder)); err != nil {
					return "the folder has no programs that were compiled ahead"
				}
				return ""
			}},
		{name: "kernels", share: 70, about: "compares completions with the CPU's: attention by its kernel",
			do: func(ctx context.Context, s *session) (any, error) {
				return s.generate(ctx, "kernels", s.kernelType(), nil, goldenModels)
			}},
		{name: "plain", share: 40, about: "the same without kernels",
			do: func(ctx context.Context, s *session) (any, error) {
				return s.generate(ctx, "plain", f32, nil, goldenModels, "--kernels", "off")
			}},
		{name: "basic", share: 30, about: "the same with --kv basic",
			do: func(ctx context.Context, s *session) (any, error) {
				more := []string{"--kv", "basic"}
				if s.backend == backend.XLATPU { // has no kernel for it, and refuses the plain form unless asked for
					more = append(more, "--kernels", "off")
				}
				return s.generate(ctx, "basic", f32, nil, []string{"dense"}, more...)
			}},
		{name: "pages", share: 50, about: "the same with pages of 16 and of 64 tokens", do: pageSizes},
		{name: "graphs", share: 40, about: "the same with loops as CUDA graphs, and their speed", do: graphs,
			lacks: func(s *session) string {
				if s.backend != backend.XLACUDA {
					return "only GPUs have graphs"
				}
				return ""
			}},
		{name: "caches", share: 50, about: "compiles a job twice, with empty caches, and compares the bytes",
			do: caches},
		{name: "swaps", share: 60, about: "runs with few pages, is killed, resumes, and verifies its output",
			do: swaps},
		{name: "speed", share: 100, about: "times decode and prompt steps of an 8B cut to 8 layers, against the peaks",
			do: speed},
		{name: "sampler", share: 50, about: "times the sampler alone, for 256 rows of 128,256 tokens", do: sampler},
		{name: "memory", share: 30, about: "fills the memory that plan finds, until pages are swapped out",
			do: plannedMemory},
	}
}
