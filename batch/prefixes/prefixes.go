// Package prefixes saves and loads the keys and values of what prompts begin with, by file or by name.
package prefixes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
)

// prefixEnding ends the file names of named prefixes.
const prefixEnding = ".kv"

var prefixName = regexp.MustCompile(`^[\pL\pN_][\pL\pN_.-]*$`)

// Prefixes is a folder of prefixes that were saved by name: the keys and values of what prompts begin with. The zero
// value stands for the one in the cache.
type Prefixes struct{ Dir string }

// Prefix is one of them. Err reports why its file can't be read.
type Prefix struct {
	Name  string
	Bytes int64
	Saved time.Time
	engine.SnapshotInfo
	Err error
}

func (p Prefixes) dir() (string, error) {
	if p.Dir != "" {
		return p.Dir, nil
	}
	cache, err := setup.CacheDir()
	return filepath.Join(cache, "prefixes"), err
}

// File returns the file of a name, whether it is there or not.
func (p Prefixes) File(name string) (string, error) {
	if !prefixName.MatchString(name) {
		return "", fmt.Errorf("%q is not a valid name of a prefix: give letters, digits, \"_\", \".\" and \"-\"", name)
	}
	dir, err := p.dir()
	return filepath.Join(dir, name+prefixEnding), err
}

// List returns the prefixes of the folder, by name.
func (p Prefixes) List() (all []Prefix, err error) {
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), prefixEnding)
		if !ok || !prefixName.MatchString(name) {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue // it was dropped meanwhile
		}
		one := Prefix{Name: name, Bytes: info.Size(), Saved: info.ModTime()}
		if f, err := os.Open(filepath.Join(dir, entry.Name())); err != nil {
			one.Err = err
		} else {
			one.SnapshotInfo, one.Err = engine.ReadSnapshotInfo(f)
			f.Close()
		}
		all = append(all, one)
	}
	return all, nil
}

// Drop removes a prefix. Jobs that have read it keep what they read.
func (p Prefixes) Drop(name string) error {
	file, err := p.File(name)
	if err != nil {
		return err
	}
	if err := os.Remove(file); errors.Is(err, fs.ErrNotExist) {
		return p.unknown(name)
	} else if err != nil {
		return err
	}
	return nil
}

func (p Prefixes) unknown(name string) error {
	dir, err := p.dir()
	return cmp.Or(err, fmt.Errorf("there is no prefix %q in %s: \"sample prefix list\" lists the prefixes",
		name, dir))
}

// find returns the file that a user means by its path, or by a name.
func (p Prefixes) find(nameOrFile string) (string, error) {
	if info, err := os.Stat(nameOrFile); err == nil && !info.IsDir() {
		return nameOrFile, nil
	}
	file, err := p.File(nameOrFile)
	if err != nil {
		return nameOrFile, nil // opening it reports what is wrong
	}
	if _, err := os.Stat(file); err != nil {
		return "", p.unknown(nameOrFile)
	}
	return file, nil
}

// LoadPrefixes reads the files of LoadPrefixes, once for each engine.
func LoadPrefixes(p *process.Process, engines ...*engine.Engine) error {
	for _, prefix := range p.LoadPrefixes {
		file, err := Prefixes{p.PrefixDir}.find(prefix)
		if err != nil {
			return setting.Errorf("`load-prefix`: %w", err)
		}
		for _, e := range engines {
			if err := loadPrefix(e, file); err != nil {
				return err
			}
		}
	}
	return nil
}

func loadPrefix(e *engine.Engine, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return setting.Errorf("`load-prefix`: %w", err)
	}
	defer f.Close()
	if _, err := e.LoadPrefix(f); err != nil {
		return setting.Errorf("`load-prefix` %s: %w", file, err)
	}
	return nil
}

// PrefixError reports that the file of [Options.SavePrefix] could not be written.
type PrefixError struct {
	File string
	Err  error
}

func (e *PrefixError) Error() string { return e.Spell(nil) }

// Spell is the error with settings in a spelling: see [setting.Spell].
func (e *PrefixError) Spell(spell setting.Spelling) string {
	return setting.Textf("`save-prefix` %s: %v", e.File, e.Err).Spell(spell)
}

func (e *PrefixError) Unwrap() error { return e.Err }

// SavePrefix writes the file of SavePrefix. It appears only whole.
func SavePrefix(ctx context.Context, p *process.Process, s *process.Session, tokens []int32) (err error) {
	if p.SavePrefix == "" {
		return nil
	}
	engines := s.Engines()
	if len(engines) == 0 {
		return setting.Errorf("`save-prefix`: this engine keeps no keys and values")
	}
	temporary := p.SavePrefix + ".part"
	f, err := os.Create(temporary)
	if err != nil {
		return setting.Errorf("`save-prefix`: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
			err = &PrefixError{p.SavePrefix, err}
		}
	}()
	_, err = engines[0].SavePrefix(ctx, tokens, f)
	if serr := f.Sync(); err == nil {
		err = serr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary, p.SavePrefix)
}
