package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/models"
	"github.com/quire/quire/text/tokenizer"
)

// openTokenizer opens the model's tokenizer; nil if it has none.
func openTokenizer(model *models.Checkpoint) (*tokenizer.Tokenizer, error) {
	if source := model.TokenizerSource(); source != "" {
		return tokenizer.Open(source)
	}
	return nil, nil
}

// openWhole opens a model whose files this machine has, or fetches as a whole.
func openWhole(ctx context.Context, p *process.Process, j *spec.Job, name string) (*models.Checkpoint, error) {
	ref, err := modelRef(ctx, p, name)
	if err != nil {
		return nil, err
	}
	if j.LoadFormat == spec.LoadDummy {
		return models.OpenConfig(ref)
	}
	return models.Open(ref)
}

// modelRef turns the names of models that setup knows into paths, fetching them if need be; all else is left as it is.
// A file or folder of such a name comes first.
func modelRef(ctx context.Context, p *process.Process, name string) (string, error) {
	if storage.IsRemote(name) {
		return fetchModel(ctx, p, name)
	}
	if _, err := os.Stat(name); err == nil || !slices.Contains(setup.Models(), name) {
		return name, nil
	}
	return setup.EnsureModel(ctx, name, p.Fetching)
}

// fetchModel brings a model folder or GGUF file that is the URL of objects into the cache and returns its path there.
func fetchModel(ctx context.Context, p *process.Process, name string) (string, error) {
	cache, err := setup.CacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "remote")
	show := storage.ProgressLines(p.Messages)
	if strings.HasSuffix(storage.Path(name), ".gguf") {
		files := map[string]string{}
		for _, url := range weightURLs(name) {
			file, err := storage.Fetch(ctx, url, cache, show)
			if err != nil {
				return "", err
			}
			files[filepath.Base(file)] = file
		}
		return linkSplit(files, cache)
	}
	dir, err := models.FetchFolder(func(want func(file string) bool) (string, error) {
		return storage.FetchFolder(ctx, name, cache, want, show)
	})
	if err != nil {
		return "", fmt.Errorf("model %s: %w", storage.Redact(name), err)
	}
	return dir, nil
}

// OpenModel is [Task.OpenModel].
func OpenModel(ctx context.Context, p *process.Process, j *spec.Job) (*models.Checkpoint, error) {
	model, err := openBase(ctx, p, j)
	if err != nil {
		return nil, err
	}
	if err := mergeAdapter(ctx, p, j, model); err != nil {
		return nil, errors.Join(err, model.Close())
	}
	if err := answer(j, model); err != nil {
		return nil, errors.Join(err, model.Close())
	}
	return model, nil
}

// openBase opens the job's model without the adapter that is folded into it.
func openBase(ctx context.Context, p *process.Process, j *spec.Job) (*models.Checkpoint, error) {
	if p.Hosts.Several() && j.LoadFormat != spec.LoadDummy {
		if storage.IsRemote(j.Model) {
			return openParts(ctx, p, j.Model)
		}
		if models.OnHub(j.Model) {
			return openHubParts(ctx, p, j.Model)
		}
	}
	return openWhole(ctx, p, j, j.Model)
}
