package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/data/storage/object"
)

// Stat describes a file or folder. An object takes precedence over a folder of the same name.
func Stat(ctx context.Context, name string) (Info, error) {
	l, err := parse(name)
	if err != nil {
		return Info{}, failed("open", name, err)
	}
	if l.scheme == "" {
		info, err := os.Stat(l.key)
		switch {
		case err != nil:
			return Info{}, failed("open", name, pathless(err))
		case info.IsDir():
			return Info{Name: name, Folder: true}, nil
		case !info.Mode().IsRegular():
			return Info{}, failed("open", name, errors.New("it is not a regular file"))
		}
		return Info{Name: name, Size: info.Size(), ModTime: info.ModTime()}, nil
	}
	if l.key != "" && !strings.HasSuffix(l.key, "/") {
		_, info, err := l.lookUp(ctx)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return info, failed("open", name, err)
		}
	}
	found := false
	err = l.each(ctx, l.folderPrefix(), func(object.Entry) bool {
		found = true
		return false
	})
	if err == nil && !found {
		err = errNoSuch
	}
	if err != nil {
		return Info{}, failed("open", name, err)
	}
	return Info{Name: name, Folder: true}, nil
}

// List returns the files below a folder, at any depth, in order of their paths; folders themselves are not listed.
func List(ctx context.Context, folder string) ([]Info, error) {
	l, err := parse(folder)
	if err != nil {
		return nil, failed("list", folder, err)
	}
	var files []Info
	if l.scheme == "" {
		files, err = Walk(l.key, func(string, fs.DirEntry) bool { return true })
		return files, failed("list", folder, pathless(err))
	}
	err = l.each(ctx, l.folderPrefix(), func(o object.Entry) bool {
		files = append(files, Info{Name: l.withKey(o.Key).String(), Size: o.Size, ModTime: o.ModTime})
		return true
	})
	slices.SortFunc(files, func(a, b Info) int { return comparePaths(Path(a.Name), Path(b.Name)) })
	return files, failed("list", folder, err)
}

// HasGlob reports whether a name has characters that are special to Glob.
func HasGlob(name string) bool { return strings.ContainsAny(Path(name), "*?[") }

// Glob returns the names of the files and folders that match a pattern of path.Match, in order. A star does not match
// slashes. For a malformed pattern, the error wraps path.ErrBadPattern.
func Glob(ctx context.Context, pattern string) ([]string, error) {
	l, err := parse(pattern)
	if err != nil {
		return nil, failed("list", pattern, err)
	}
	if l.scheme == "" {
		names, err := filepath.Glob(l.key)
		return names, failed("list", pattern, err)
	}
	if _, err := path.Match(l.key, ""); err != nil {
		return nil, failed("list", pattern, err)
	}
	want := strings.TrimSuffix(l.key, "/")
	depth := strings.Count(want, "/")
	prefix := want
	if i := strings.IndexAny(want, "*?[\\"); i >= 0 {
		prefix = want[:i]
	}
	var keys []string
	err = l.each(ctx, prefix, func(o object.Entry) bool {
		parts := strings.SplitN(o.Key, "/", depth+2)
		if len(parts) <= depth {
			return true
		}
		key := strings.Join(parts[:depth+1], "/")
		if ok, _ := path.Match(want, key); ok {
			keys = append(keys, key)
		}
		return true
	})
	if err != nil {
		return nil, failed("list", pattern, err)
	}
	slices.SortFunc(keys, comparePaths)
	keys = slices.Compact(keys)
	for i, key := range keys {
		keys[i] = l.withKey(key).String()
	}
	return keys, nil
}

// folderPrefix returns the prefix of the keys of all objects below the location.
func (l location) folderPrefix() string {
	if l.key == "" || strings.HasSuffix(l.key, "/") {
		return l.key
	}
	return l.key + "/"
}

const listPage = 1000

// each yields the objects whose keys start with prefix, page by page, until yield returns false.
func (l location) each(ctx context.Context, prefix string, yield func(o object.Entry) bool) error {
	bucket, err := l.open(ctx)
	if err != nil {
		return err
	}
	for token := ""; ; {
		var page []object.Entry
		var next string
		err := again(ctx, func(a attempt) (err error) {
			page, next, err = bucket.List(a.ctx, prefix, token, listPage)
			return err
		})
		if err != nil {
			return reason(err)
		}
		for _, o := range page {
			if strings.HasSuffix(o.Key, "/") { // consoles create these for empty folders
				continue
			}
			if !yield(o) {
				return nil
			}
		}
		if next == "" {
			return nil
		}
		token = next
	}
}
