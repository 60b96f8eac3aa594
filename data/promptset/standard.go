package promptset

import (
	"context"
)

// StandardInput is the name of standard input in rows, errors and descriptions of jobs.
const StandardInput = "standard input"

// standard are files with one name for standard input.
type standard struct {
	Files
	copied string // path of the copy
}

// WithStandardInput returns files in which the names "-" and [StandardInput] stand for a copy of standard input, a
// local JSONL file.
func WithStandardInput(files Files, copied string) Files { return &standard{files, copied} }

func (s *standard) Expand(ctx context.Context, path string) ([]string, error) {
	if path == "-" || path == StandardInput {
		return []string{StandardInput}, nil
	}
	return s.Files.Expand(ctx, path)
}

func (s *standard) Open(ctx context.Context, name string) (File, error) {
	if name == StandardInput {
		return LocalFiles.Open(ctx, s.copied)
	}
	return s.Files.Open(ctx, name)
}
