package spec

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
)

// CheckOutput refuses an output that can't be the job's folder: a file, the name of one, or a folder whose parts the
// inputs would have, so that the next run would read completions as prompts.
func (s *Spec) CheckOutput(ctx context.Context) error {
	info, err := os.Stat(s.Output)
	local := !storage.IsRemote(s.Output)
	if local && err == nil && info.Mode().IsRegular() {
		return outcome.Errorf(outcome.Misused, "`output` is %s, which is a file: give a folder", s.Output)
	}
	if stem := promptset.FileStem(storage.Path(s.Output)); stem != "" {
		existing, _ := jobstate.ReadOutput(ctx, s.Output) // by a version that took such names
		if existing == nil && !(local && err == nil) {
			return s.fileNamed(stem)
		}
	}
	for _, input := range s.Inputs {
		if input != Standard && s.covers(input) {
			return outcome.Errorf(outcome.Misused,
				"`output` is %s, and `input` %s has it: its parts would be read as prompts. Give "+
					"another `output`; a folder below an input folder may be one", s.Output, storage.Redact(input))
		}
	}
	return nil
}

// fileNamed is the error for an output that has the name of a file; stem is the name without its ending.
func (s *Spec) fileNamed(stem string) error {
	name := path.Base(storage.Path(s.Output))
	ending := strings.ToLower(strings.TrimPrefix(name, path.Base(stem)))
	start := strings.LastIndex(s.Output, name)
	remedy := setting.Textf("give `output` %s",
		storage.Redact(s.Output[:start]+path.Base(stem)+s.Output[start+len(name):]))
	switch {
	case strings.HasPrefix(ending, ".parquet") && s.Format == promptset.FormatParquet:
		remedy = setting.Textf("%s, which gets %s/part-00000.parquet", remedy, path.Base(stem))
	case strings.HasPrefix(ending, ".jsonl"), strings.HasPrefix(ending, ".ndjson"), ending == ".json":
		format := promptset.FormatJSONL
		if s.Format == promptset.FormatOpenAI {
			format = s.Format
		}
		remedy = setting.Textf("%s and `format` %s; or `output` -, which writes the lines to standard output "+
			"(> %s.jsonl)", remedy, format, path.Base(stem))
	default:
		remedy = setting.Textf("%s and `format` parquet or jsonl", remedy)
	}
	return outcome.Errorf(outcome.Misused,
		"`output` is %s, the name of a file, and a job writes parts into a folder: %s",
		storage.Redact(s.Output), remedy)
}

// covers reports whether an input is the output folder, or a glob that parts in it match.
func (s *Spec) covers(input string) bool {
	if storage.IsRemote(input) != storage.IsRemote(s.Output) {
		return false
	}
	part := folder.Parts{Rows: 1, PartRows: 1}.Name(0, s.Format)
	if storage.IsRemote(input) {
		in, out := strings.TrimSuffix(input, "/"), strings.TrimSuffix(s.Output, "/")
		return in == out || matches(path.Match, in, out, out+"/"+part)
	}
	out := realPath(s.Output)
	if _, err := os.Stat(input); err == nil {
		return realPath(input) == out
	}
	in, err := filepath.Abs(input)
	return err == nil && matches(filepath.Match, in, out, filepath.Join(out, part))
}

// matches reports whether a glob matches one of the names.
func matches(match func(pattern, name string) (bool, error), glob string, names ...string) bool {
	for _, name := range names {
		if matched, err := match(glob, name); matched && err == nil {
			return true
		}
	}
	return false
}

// realPath is the absolute path of a folder without symbolic links, as far as it is there.
func realPath(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	if above := filepath.Dir(abs); above != abs {
		return filepath.Join(realPath(above), filepath.Base(abs))
	}
	return abs
}
