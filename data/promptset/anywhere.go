package promptset

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/quire/quire/data/storage"
)

// anywhere covers local files and objects of the stores that package storage supports.
type anywhere struct {
	mu   sync.Mutex
	urls map[string]string // by the displayed name: URLs with their parameters
	// datasets of the hub that were looked up, since their branches may have moved after an earlier job read them
	lookedUp map[string]bool
}

// Anywhere returns files that are local paths or URLs of objects, and globs and folders of both. Rows and errors name
// an object by its URL without the parameters, which may contain secrets.
func Anywhere() Files { return &anywhere{urls: map[string]string{}, lookedUp: map[string]bool{}} }

func (a *anywhere) Open(ctx context.Context, name string) (File, error) {
	a.mu.Lock()
	url, ok := a.urls[name]
	a.mu.Unlock()
	if !ok {
		return LocalFiles.Open(ctx, name)
	}
	f, err := storage.Open(ctx, url)
	if err != nil {
		return nil, fileError(name, "cannot open it", err)
	}
	return f, nil
}

// fileError converts an error of package storage, which includes the name already.
func fileError(name, what string, err error) error {
	var s *storage.Error
	if errors.As(err, &s) && s.Name == storage.Redact(name) {
		err = s.Err
	}
	return &FileError{File: storage.Redact(name), What: what, Err: errors.New(storage.Scrub(err.Error()))}
}

func (a *anywhere) Expand(ctx context.Context, name string) ([]string, error) {
	name, err := storage.Resolve(name)
	if err != nil {
		return nil, &FileError{File: storage.Redact(name), What: "cannot read it", Err: err}
	}
	if !storage.IsRemote(name) {
		return LocalFiles.Expand(ctx, name)
	}
	if err := a.lookUp(ctx, name); err != nil {
		return nil, fileError(name, "cannot read it", err)
	}
	urls, err := expandRemote(ctx, name)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	names := make([]string, len(urls))
	for i, url := range urls {
		names[i] = storage.Redact(url)
		a.urls[names[i]] = url
	}
	return names, nil
}

// lookUp looks up the revision of a dataset again, the first time that one of its files is used.
func (a *anywhere) lookUp(ctx context.Context, name string) error {
	dataset := storage.Dataset(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if dataset == "" || a.lookedUp[dataset] {
		return nil
	}
	a.lookedUp[dataset] = true
	return storage.Forget(ctx, dataset)
}

func expandRemote(ctx context.Context, name string) (files []string, err error) {
	info, err := storage.Stat(ctx, name)
	if err == nil && !info.Folder {
		return []string{info.Name}, nil
	}
	matches := []string{name}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fileError(name, "cannot read it", err)
		}
		if !storage.HasGlob(name) {
			return nil, &FileError{File: storage.Redact(name), What: "there is no such file or folder", Missing: true}
		}
		if err := wellFormed(name); err != nil {
			return nil, err
		}
		matches, err = storage.Glob(ctx, name)
		if errors.Is(err, path.ErrBadPattern) {
			return nil, &FileError{File: storage.Redact(name), What: "not a well-formed glob", Err: path.ErrBadPattern}
		}
		if err != nil {
			return nil, fileError(name, "cannot list it", err)
		}
		if len(matches) == 0 {
			return nil, &FileError{File: storage.Redact(name), What: "no file matches", Missing: true}
		}
	}
	for _, match := range matches {
		if info, err := storage.Stat(ctx, match); err != nil {
			return nil, fileError(match, "cannot read it", err)
		} else if !info.Folder {
			files = append(files, info.Name)
			continue
		}
		below, err := remoteFolder(ctx, match)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

// remoteFolder returns the prompt files below a folder, chosen like the files of a local folder.
func remoteFolder(ctx context.Context, folder string) (files []string, err error) {
	below, err := storage.List(ctx, folder)
	if err != nil {
		return nil, fileError(folder, "cannot list it", err)
	}
	root := strings.TrimPrefix(strings.TrimSuffix(storage.Path(folder), "/")+"/", "/")
	var names, outputs []string
	urls := map[string]string{}
	all := make([]string, len(below))
	for i, info := range below {
		all[i] = strings.TrimPrefix(storage.Path(info.Name), root)
	}
	isOutput := outputsAmong(all)
	for _, info := range below {
		rel := strings.TrimPrefix(storage.Path(info.Name), root)
		if output := isOutput(rel); output != "" {
			outputs = append(outputs, strings.TrimSuffix(storage.Redact(folder), "/")+"/"+output)
			continue
		}
		hidden := slices.ContainsFunc(strings.Split(rel, "/"), func(element string) bool {
			return element != "" && (element[0] == '.' || element[0] == '_')
		})
		if !hidden {
			names = append(names, rel)
			urls[rel] = info.Name
		}
	}
	names, err = chosen(strings.TrimSuffix(storage.Redact(folder), "/"), names, func(name string) ([]byte, error) {
		text, err := storage.ReadFile(ctx, urls[name], maxState)
		if err != nil {
			return nil, fileError(urls[name], "cannot read it", err)
		}
		return text, nil
	})
	if err != nil {
		return nil, err
	}
	if storage.ReadOnly(folder) {
		if err := checkSplits(storage.Redact(folder), names); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		files = append(files, urls[name])
	}
	if len(files) == 0 {
		return nil, noFiles(storage.Redact(folder), outputs)
	}
	return files, nil
}

// outputsAmong finds the outputs of jobs among paths below a folder. It returns a function that maps a path to the
// output that contains it, "" for none.
func outputsAmong(paths []string) func(path string) string {
	folders := map[string]*outputMarks{}
	for _, p := range paths {
		for dir := path.Dir(p); dir != "." && dir != "/"; p, dir = dir, path.Dir(dir) {
			if folders[dir] == nil {
				folders[dir] = &outputMarks{}
			}
			folders[dir].see(path.Base(p))
		}
	}
	return func(p string) string {
		for dir := path.Dir(p); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if folders[dir].ofOutput() {
				return dir
			}
		}
		return ""
	}
}
