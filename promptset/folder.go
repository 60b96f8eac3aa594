package promptset

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/gofrs/flock"
)

const lockName = ".writing.lock"

var (
	partName = regexp.MustCompile(`^part-\d+\.(parquet|jsonl)$`)
	tempName = regexp.MustCompile(`^\.(part-\d+\.(parquet|jsonl)|_meta\.json)\.tmp-\d+$`)
)

// folderLock is an output folder that this process alone writes to.
type folderLock struct {
	dir  string
	lock *flock.Flock
}

// lockFolder makes the folder if need be, keeps other writers out and clears temporary files of writers that died.
func lockFolder(dir string, overwrite bool) (*folderLock, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("cannot make the output folder: %w", err)
	}
	path := filepath.Join(dir, lockName)
	f := &folderLock{dir: dir}
	for {
		f.lock = flock.New(path)
		ok, err := f.lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("cannot lock the output folder %s: %w", dir, err)
		}
		if !ok {
			return nil, fmt.Errorf("another process is writing to %s; wait for it, or choose another output folder", dir)
		}
		// The holder before us may have removed the file between our opening and locking it.
		if _, err := os.Stat(path); err == nil {
			break
		}
		f.lock.Unlock()
	}
	if err := f.clean(overwrite); err != nil {
		f.unlock()
		return nil, err
	}
	return f, nil
}

func (f *folderLock) clean(overwrite bool) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("cannot list the output folder: %w", err)
	}
	removed := false
	for _, e := range entries {
		switch name := e.Name(); {
		case tempName.MatchString(name):
		case partName.MatchString(name) && overwrite, name == "_meta.json" && overwrite:
		case partName.MatchString(name):
			return fmt.Errorf("%s: %w (%s); choose another folder, remove them, or ask to overwrite", f.dir, ErrOutputExists, name)
		default:
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil {
			return fmt.Errorf("cannot clear the output folder: %w", err)
		}
		removed = true
	}
	if removed {
		return f.sync()
	}
	return nil
}

func (f *folderLock) unlock() error {
	// Removed before it is unlocked, so that nobody who waits for it keeps a file that is gone without noticing.
	err := os.Remove(f.lock.Path())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.lock.Unlock())
}

// sync makes renames and removals in the folder last.
func (f *folderLock) sync() error {
	d, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("cannot sync the output folder: %w", err)
	}
	return nil
}

// partFile is a file that appears under its name when it is whole.
type partFile struct {
	folder *folderLock
	final  string
	file   *os.File
	buffer *bufio.Writer
}

func (f *folderLock) create(name string) (*partFile, error) {
	p := &partFile{folder: f, final: filepath.Join(f.dir, name)}
	temp := filepath.Join(f.dir, "."+name+".tmp-"+strconv.Itoa(os.Getpid()))
	var err error
	if p.file, err = os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", p.final, err)
	}
	p.buffer = bufio.NewWriterSize(p.file, 256<<10)
	return p, nil
}

// commit puts the file on disk and under its name.
func (p *partFile) commit() error {
	err := p.buffer.Flush()
	if err == nil {
		err = p.file.Sync()
	}
	if cerr := p.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(p.file.Name(), p.final)
	}
	if err == nil {
		err = p.folder.sync()
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", p.final, err)
	}
	return nil
}

func (p *partFile) discard() {
	p.file.Close()
	os.Remove(p.file.Name())
}

func (f *folderLock) writeMeta(meta map[string]string) error {
	p, err := f.create("_meta.json")
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(meta, "", "  ") // keys in order
	if err == nil {
		_, err = p.buffer.Write(append(b, '\n'))
	}
	if err != nil {
		p.discard()
		return err
	}
	return p.commit()
}
