package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/models"
	"github.com/quire/quire/setup"
	"github.com/quire/quire/storage"
)

// hideParameters takes the parameters off URLs of objects, which may hold what does not belong into logs and outputs.
func (o *runOptions) hideParameters() (err error) {
	if o.model, err = storage.Hide(o.model); err != nil {
		return err
	}
	if o.output, err = storage.Hide(o.output); err != nil {
		return err
	}
	for i := range o.inputs {
		if o.inputs[i], err = storage.Hide(o.inputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// fetchRemoteModel brings a model folder or GGUF file that is the URL of objects into the cache and returns its path
// there.
func fetchRemoteModel(ctx context.Context, env *environment, ref string) (string, error) {
	cache, err := setup.CacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "remote")
	show := fetchedLines(env.stderr)
	if strings.HasSuffix(storage.Path(ref), ".gguf") {
		return storage.Fetch(ctx, ref, cache, show)
	}
	dir, err := models.FetchFolder(func(want func(file string) bool) (string, error) {
		return storage.FetchFolder(ctx, ref, cache, want, show)
	})
	if err != nil {
		return "", fmt.Errorf("model %s: %w", storage.Redact(ref), err)
	}
	return dir, nil
}

// fetchedEvery is the time between lines about one download.
const fetchedEvery = 5 * time.Second

func fetchedLines(w io.Writer) storage.Progress {
	last := time.Now()
	return func(name string, done, total int64) {
		if done > 0 && time.Since(last) >= fetchedEvery {
			last = time.Now()
			fmt.Fprintf(w, "fetching %s: %d of %d MB\n", name, done>>20, total>>20)
		}
	}
}

// workFolder is where the state and the journal of a job are: the output folder, or for an output elsewhere a local
// folder of its own.
func (o *runOptions) workFolder() (string, error) {
	if o.workDir != "" {
		return o.workDir, nil
	}
	if !storage.IsRemote(o.output) {
		return o.output, nil
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.TrimSuffix(storage.Redact(o.output), "/")))
	return filepath.Join(cache, "jobs", hex.EncodeToString(sum[:8])), nil
}
