package smoke

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quire/quire/backend"
)

// ahead runs a job with a cache that has only the programs which were compiled ahead.
func ahead(ctx context.Context, s *session) (any, error) {
	cache := filepath.Join(s.work, "ahead")
	programs := filepath.Join(cache, programsFolder)
	if err := os.CopyFS(programs, os.DirFS(filepath.Join(s.folder, programsFolder))); err != nil {
		return nil, err
	}
	before, err := programsIn(programs)
	if err != nil {
		return nil, err
	}
	found, err := s.generate(ctx, "ahead", bf16, []string{"QUIRE_CACHE=" + cache}, []string{aheadModel})
	if err != nil {
		return found, err
	}
	after, err := programsIn(programs)
	if err != nil {
		return found, err
	}
	compiled := 0
	for name, file := range after {
		if old := before[name]; old == nil || !os.SameFile(old, file) { // one that can't be loaded is written again
			compiled++
		}
	}
	if compiled > 0 {
		return found, fmt.Errorf("%d programs were compiled here, although %d were compiled ahead", compiled,
			len(before))
	}
	return found, nil
}

// programsIn returns the compiled programs of a folder.
func programsIn(folder string) (map[string]os.FileInfo, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	found := map[string]os.FileInfo{}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".pjrt" {
			continue
		}
		if found[e.Name()], err = e.Info(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func pageSizes(ctx context.Context, s *session) (any, error) {
	type sized struct {
		Tokens int `json:"page_size"`
		*comparison
	}
	var all []sized
	var wrong []error
	for _, tokens := range []int{16, 64} {
		found, err := s.generate(ctx, fmt.Sprintf("pages-%d", tokens), s.kernelType(), nil,
			[]string{"dense", "windows"}, "--page-size", fmt.Sprint(tokens))
		for _, c := range found {
			all = append(all, sized{tokens, c})
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("pages of %d tokens: %w", tokens, err))
		}
	}
	return all, errors.Join(wrong...)
}

// graphs has XLA make parts of CUDA graphs of loops too, which it does by itself for branches alone.
func graphs(ctx context.Context, s *session) (any, error) {
	type pair struct {
		Without *comparison `json:"without"`
		With    *comparison `json:"with"`
		Same    bool        `json:"same_bytes"`
	}
	var all []pair
	var wrong []error
	loops := flagsOfXLA("--xla_gpu_enable_command_buffer=+WHILE")
	for _, model := range []string{"dense", "windows"} {
		var p pair
		var without, with *generated
		var err error
		// Both have their programs from the cache if they ran before, so the seconds on the device compare.
		if p.Without, without, err = s.generateOne(ctx, "loops-"+model, model, f32, nil); err == nil {
			p.With, with, err = s.generateOne(ctx, "graphs-"+model, model, f32, loops)
		}
		if err == nil {
			p.Same, err = sameBytes(without.file, with.file)
		}
		all, wrong = append(all, p), append(wrong, err)
	}
	return all, errors.Join(wrong...)
}

// caches runs a job twice, with a fresh cache each. On GPUs XLA chooses between forms of a product by their time, so
// that bytes may differ; then it also runs without that choice.
func caches(ctx context.Context, s *session) (any, error) {
	var figures struct {
		Same    bool  `json:"same_bytes"`
		Untuned *bool `json:"same_bytes_without_tuning,omitempty"`
	}
	twice := func(name string, environment []string) (bool, error) {
		var files []string
		for i := range 2 {
			g := s.job(fmt.Sprintf("%s-%d", name, i), "dense")
			made, err := g.run(ctx, s.program, append([]string{"QUIRE_CACHE=" + filepath.Join(s.work, g.name)},
				environment...))
			if err != nil {
				return false, err
			}
			files = append(files, made.file)
		}
		return sameBytes(files[0], files[1])
	}
	var err error
	if figures.Same, err = twice("cache", nil); err != nil || figures.Same {
		return figures, err
	}
	err = errors.New("two processes that compile the same job write different bytes")
	if s.backend == backend.XLACUDA {
		untuned, again := twice("untuned", flagsOfXLA("--xla_gpu_autotune_level=0"))
		figures.Untuned, err = &untuned, errors.Join(err, again)
	}
	return figures, err
}

func sameBytes(a, b string) (bool, error) {
	one, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	other, err := os.ReadFile(b)
	return string(one) == string(other), err
}

// flagsOfXLA returns the variable that gives XLA one more flag.
func flagsOfXLA(flag string) []string {
	return []string{"XLA_FLAGS=" + strings.TrimSpace(os.Getenv("XLA_FLAGS")+" "+flag)}
}
