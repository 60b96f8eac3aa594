package jobstate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quire/quire/data/storage"
)

// ReadOutput reads what job an output folder has; nil is none.
func ReadOutput(ctx context.Context, output string) (*Description, error) {
	if storage.IsRemote(output) {
		return ReadShared(ctx, output)
	}
	path := filepath.Join(output, Folder, "job.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return d, nil
}
