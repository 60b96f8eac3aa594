package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

// named is an adapter of the job that is to be opened.
type named struct{ flag, name, place string }

// openAdapters opens the adapters that rows of the job may name.
func openAdapters(ctx context.Context, p *process.Process, j *spec.Job, model *models.Checkpoint) (adapters, error) {
	all, err := namedAdapters(j)
	if err != nil {
		return nil, err
	}
	for i, one := range all {
		if all[i].place, err = fetchAdapter(ctx, p, one.place); err != nil {
			return nil, one.failed(err)
		}
	}
	list, errs := make(adapters, len(all)), make([]error, len(all))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		wg.Go(func() { // a file is hashed, which takes a processor
			for i := int(next.Add(1)) - 1; i < len(all) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				list[i].Name = all[i].name
				list[i].Adapter, errs[i] = adapter.Open(all[i].place, &model.Config)
			}
		})
	}
	wg.Wait()
	err = ctx.Err()
	for i, wrong := range errs {
		if wrong != nil {
			err = all[i].failed(wrong)
			break
		}
	}
	if err != nil {
		list.close()
		return nil, err
	}
	return list, nil
}

func (n named) failed(err error) error {
	return setting.Errorf("%s %s: %w", setting.Name(n.flag), n.name, err)
}

// namedAdapters are the adapters that rows of the job may name, by name.
func namedAdapters(j *spec.Job) (all []named, err error) {
	for _, one := range j.Adapters.Named {
		name, place, _ := strings.Cut(one, "=")
		all = append(all, named{"adapter", name, place})
	}
	for _, folder := range j.Adapters.Folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, setting.Errorf("`adapters` is %s: %w", folder, err)
		}
		before := len(all)
		for _, entry := range entries {
			dir := filepath.Join(folder, entry.Name())
			if _, err := os.Stat(filepath.Join(dir, adapter.ConfigFile)); err == nil {
				all = append(all, named{"adapters", entry.Name(), dir})
			}
		}
		if len(all) == before {
			return nil, setting.Errorf("`adapters` is %s, and no folder in it has an %s", folder, adapter.ConfigFile)
		}
	}
	slices.SortStableFunc(all, func(a, b named) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(all); i++ {
		if all[i].name == all[i-1].name {
			return nil, setting.Errorf("%s: there are two adapters called %s: rename one", setting.Name(all[i].flag),
				all[i].name)
		}
	}
	return all, nil
}

// fetchAdapter returns where an adapter is on this machine, fetching it if need be.
func fetchAdapter(ctx context.Context, p *process.Process, place string) (string, error) {
	switch {
	case filepath.Ext(place) == adapter.Extension && (models.OnHub(place) || storage.IsRemote(place)):
		return "", fmt.Errorf("adapter %s: GGUF files of adapters are read from this machine: fetch it first",
			storage.Redact(place))
	case models.OnHub(place):
		return models.FetchFiles(place, adapter.ConfigFile, adapter.WeightsFile)
	case storage.IsRemote(place):
		cache, err := setup.CacheDir()
		if err != nil {
			return "", err
		}
		wanted := func(file string) bool { return file == adapter.ConfigFile || file == adapter.WeightsFile }
		folder, err := storage.FetchFolder(ctx, place, filepath.Join(cache, "remote"), wanted,
			storage.ProgressLines(p.Messages))
		if err != nil {
			return "", fmt.Errorf("adapter %s: %w", storage.Redact(place), err)
		}
		return folder, nil
	}
	return place, nil
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
		if a.Adapter != nil {
			_ = a.Close()
		}
	}
}

// mergeAdapter folds the adapter of the job into the weights of its model.
func mergeAdapter(ctx context.Context, p *process.Process, j *spec.Job, model *models.Checkpoint) error {
	place := j.Adapters.Merged
	if place == "" {
		return nil
	}
	folder, err := fetchAdapter(ctx, p, place)
	if err == nil {
		err = foldAdapter(folder, model)
	}
	if err != nil {
		return setting.Errorf("`merge-adapter`: %w", err)
	}
	return nil
}

func foldAdapter(folder string, model *models.Checkpoint) error {
	a, err := adapter.Open(folder, &model.Config)
	if err != nil {
		return err
	}
	return errors.Join(a.MergeInto(model), a.Close())
}
