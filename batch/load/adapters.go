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
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/adapter"
)

// adapters are the open adapters of a job, by name.
type adapters []engine.Adapter

// openAdapters opens the adapters that rows of the job may name.
func openAdapters(ctx context.Context, p *process.Process, j *spec.Job, model *models.Checkpoint) (_ adapters,
	err error) {
	var list adapters
	defer func() {
		if err != nil {
			list.close()
		}
	}()
	add := func(flag, name, place string) error {
		if slices.ContainsFunc(list, func(a engine.Adapter) bool { return a.Name == name }) {
			return setting.Errorf("%s: there are two adapters called %s: rename one", setting.Name(flag), name)
		}
		a, err := openAdapter(ctx, p, place, model)
		if err != nil {
			return setting.Errorf("%s %s: %w", setting.Name(flag), name, err)
		}
		list = append(list, engine.Adapter{Name: name, Adapter: a})
		return nil
	}
	for _, one := range j.Adapters.Named {
		name, place, _ := strings.Cut(one, "=")
		if err := add("adapter", name, place); err != nil {
			return nil, err
		}
	}
	for _, folder := range j.Adapters.Folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, setting.Errorf("`adapters` is %s: %w", folder, err)
		}
		found := false
		for _, entry := range entries {
			dir := filepath.Join(folder, entry.Name())
			if _, err := os.Stat(filepath.Join(dir, adapter.ConfigFile)); err != nil {
				continue
			}
			found = true
			if err := add("adapters", entry.Name(), dir); err != nil {
				return nil, err
			}
		}
		if !found {
			return nil, setting.Errorf("`adapters` is %s, and no folder in it has an %s", folder, adapter.ConfigFile)
		}
	}
	slices.SortFunc(list, func(a, b engine.Adapter) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// openAdapter opens one adapter, fetching it if need be.
func openAdapter(ctx context.Context, p *process.Process, place string, model *models.Checkpoint) (*adapter.Adapter,
	error) {
	folder := place
	switch {
	case filepath.Ext(place) == adapter.Extension && (models.OnHub(place) || storage.IsRemote(place)):
		return nil, fmt.Errorf("adapter %s: GGUF files of adapters are read from this machine: fetch it first",
			storage.Redact(place))
	case models.OnHub(place):
		dir, err := models.FetchFiles(place, adapter.ConfigFile, adapter.WeightsFile)
		if err != nil {
			return nil, err
		}
		folder = dir
	case storage.IsRemote(place):
		cache, err := setup.CacheDir()
		if err != nil {
			return nil, err
		}
		wanted := func(file string) bool { return file == adapter.ConfigFile || file == adapter.WeightsFile }
		folder, err = storage.FetchFolder(ctx, place, filepath.Join(cache, "remote"), wanted,
			storage.ProgressLines(p.Messages))
		if err != nil {
			return nil, fmt.Errorf("adapter %s: %w", storage.Redact(place), err)
		}
	}
	return adapter.Open(folder, &model.Config)
}

// digests are the adapters' digests by name; nil without adapters.
func (list adapters) digests() map[string]string {
	if len(list) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, a := range list {
		all[a.Name] = "sha256:" + a.Digest
	}
	return all
}

func (list adapters) names() (names []string) {
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}

func (list adapters) close() {
	for _, a := range list {
		_ = a.Close()
	}
}

// mergeAdapter folds the adapter of the job into the weights of its model.
func mergeAdapter(ctx context.Context, p *process.Process, j *spec.Job, model *models.Checkpoint) error {
	place := j.Adapters.Merged
	if place == "" {
		return nil
	}
	a, err := openAdapter(ctx, p, place, model)
	if err == nil {
		err = errors.Join(a.MergeInto(model), a.Close())
	}
	if err != nil {
		return setting.Errorf("`merge-adapter`: %w", err)
	}
	return nil
}
