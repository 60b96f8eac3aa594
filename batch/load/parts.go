package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/models"
)

// parts are remote weight files, by their names. Only the bytes that are read are fetched.
type parts map[string]*storage.Partial

func (p parts) close() (err error) {
	for _, part := range p {
		err = errors.Join(err, part.Close())
	}
	return err
}

// open opens the model at path, which closes the parts at its end.
func (p parts) open(path string) (*models.Checkpoint, error) {
	return models.OpenParts(path, func(file string, ranges ...models.Range) error {
		list := make([]storage.Range, len(ranges))
		for i, r := range ranges {
			list[i] = storage.Range(r)
		}
		return p[file].Need(list...)
	}, p.close)
}

// partOptions are the options of a process' parts, and the place of their copies.
func partOptions(p *process.Process) (cache string, options storage.PartialOptions, err error) {
	cache, err = setup.CacheDir()
	return filepath.Join(cache, "remote"), storage.PartialOptions{Gap: p.PartGap,
		Progress: storage.ProgressLines(p.Messages)}, err
}

// openParts opens a model folder or GGUF file, whose name is the URL of objects.
func openParts(ctx context.Context, p *process.Process, name string) (*models.Checkpoint, error) {
	cache, options, err := partOptions(p)
	if err != nil {
		return nil, err
	}
	var path string
	all := parts{}
	if models.IsWeights(storage.Path(name)) {
		for _, url := range weightURLs(name) {
			p, err := storage.OpenPartial(ctx, url, cache, options)
			if err != nil {
				return nil, errors.Join(err, all.close())
			}
			all[filepath.Base(p.Path())] = p
		}
		path, err = all.folder("", cache)
	} else {
		path, err = models.FetchFolder(func(want func(file string) bool) (dir string, err error) {
			if err = all.close(); err == nil { // the parts of an earlier call: it had no weights
				dir, all, err = storage.FetchFolderPartly(ctx, name, cache, want, models.IsWeights, options)
			}
			return dir, err
		})
	}
	var model *models.Checkpoint
	if err == nil {
		model, err = all.open(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", storage.Redact(name), err), all.close())
	}
	return model, nil
}

// weightURLs are the URLs of a model's GGUF file, or of all files of the split model that it belongs to.
func weightURLs(model string) []string {
	base := path.Base(storage.Path(model))
	start := strings.LastIndex(model, base)
	names := models.SplitNames(base)
	if start < 0 || len(names) == 1 {
		return []string{model}
	}
	for i, name := range names {
		names[i] = model[:start] + name + model[start+len(base):]
	}
	return names
}

// openHubParts opens a model of the hub. It fetches whole files if the hub does not send parts of them.
func openHubParts(ctx context.Context, p *process.Process, name string) (*models.Checkpoint, error) {
	found, err := models.FindOnHub(name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return models.Open(name)
	}
	cache, options, err := partOptions(p)
	if err != nil {
		return nil, err
	}
	all := parts{}
	for _, file := range slices.Sorted(maps.Keys(found.URLs)) {
		p, err := storage.OpenPartialURL(ctx, found.URLs[file], found.Header, cache, options)
		if errors.Is(err, storage.ErrNoRanges) && all.close() == nil {
			return models.Open(name)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("model %s: %w", name, err), all.close())
		}
		all[filepath.Base(file)] = p
	}
	path, err := all.folder(found.Folder, cache)
	var model *models.Checkpoint
	if err == nil {
		model, err = all.open(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", name, err), all.close())
	}
	model.Ref = name
	return model, nil
}

// folder makes a folder in the cache with links to the parts and to the files of another folder. Without that it is the
// path of the GGUF file, the first of a split model.
func (p parts) folder(others, cache string) (dir string, err error) {
	links := map[string]string{}
	for file, part := range p {
		links[file] = part.Path()
	}
	if others == "" {
		return linkSplit(links, cache)
	}
	entries, err := os.ReadDir(others)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if !models.IsWeights(entry.Name()) {
			links[entry.Name()] = filepath.Join(others, entry.Name())
		}
	}
	return linkFolder(links, cache)
}

// linkSplit returns the path of the first file of a split model, which has the others alongside it. Of one file it is
// the path as it is.
func linkSplit(files map[string]string, cache string) (string, error) {
	names := slices.Sorted(maps.Keys(files))
	if len(names) == 1 {
		return files[names[0]], nil
	}
	dir, err := linkFolder(files, cache)
	return filepath.Join(dir, names[0]), err
}

// linkFolder makes a folder in the cache with links to files, by their names in it.
func linkFolder(links map[string]string, cache string) (dir string, err error) {
	identity := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(links)) {
		fmt.Fprintln(identity, name, links[name])
	}
	dir = filepath.Join(cache, "links-"+hex.EncodeToString(identity.Sum(nil))[:24])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return dir, nil
}
