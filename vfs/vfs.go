// Package vfs is the file layer below a job's output. It has the few operations that must survive a crash, on real
// files ([OS]), on files in memory that can lose what was not synced ([Mem]), and with injected errors ([Inject]).
//
// A file's bytes are durable once [File.Sync] has returned, and its name once [FS.SyncDir] of its folder has. A loss of
// power may lose anything else, in part or whole.
package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")

// File is an open file. One that [FS.Open] gave cannot be written to.
type File interface {
	io.Writer   // appends
	io.ReaderAt //
	io.Closer
	// Sync makes the bytes written so far last.
	Sync() error
	// Size returns the length in bytes.
	Size() (int64, error)
}

// FS is a file system. Errors satisfy errors.Is with fs.ErrNotExist and the like.
type FS interface {
	// Create makes an empty file, in place of one that is there.
	Create(name string) (File, error)
	// Append opens a file for writing at its end, and makes it if need be.
	Append(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Rename gives a file another name in the same folder, in place of a file that has it.
	Rename(from, to string) error
	Remove(name string) error
	// MkdirAll makes a folder and those above it, and makes their names last.
	MkdirAll(dir string) error
	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)
	// SyncDir makes the names in a folder last: those that were made, changed and removed.
	SyncDir(dir string) error
	// Lock takes a lock that one process has at a time, until it closes it or dies; the file of that name stays. The
	// error is [ErrLocked] while another one has it.
	Lock(name string) (io.Closer, error)
	// LockShared takes a lock that any number of processes have at a time, while none has it by Lock; else the error is
	// [ErrLocked].
	LockShared(name string) (io.Closer, error)
}

// OS is the file system of the machine.
var OS FS = machine{}

type machine struct{}

type machineFile struct{ *os.File }

func (f machineFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func opened(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return machineFile{f}, nil
}

func (machine) Create(name string) (File, error) { return opened(os.Create(name)) }

func (machine) Append(name string) (File, error) {
	// For reading too: whoever appends looks first at what the last one left.
	return opened(os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666))
}

func (machine) Open(name string) (File, error) { return opened(os.Open(name)) }

func (machine) Rename(from, to string) error { return os.Rename(from, to) }

func (machine) Remove(name string) error { return os.Remove(name) }

func (m machine) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	above := filepath.Dir(dir)
	if _, err := os.Stat(dir); err == nil {
		// whoever made it may have died before; what is above an old folder need not be ours to sync
		_ = m.SyncDir(above)
		return os.MkdirAll(dir, 0o777) // an error where it is no folder
	}
	if above != dir {
		if err := m.MkdirAll(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return m.SyncDir(above)
}

func (machine) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (machine) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (machine) Lock(name string) (io.Closer, error) { return lock(name, (*flock.Flock).TryLock) }

func (machine) LockShared(name string) (io.Closer, error) { return lock(name, (*flock.Flock).TryRLock) }

func lock(name string, try func(*flock.Flock) (bool, error)) (io.Closer, error) {
	// The file stays when the lock is given back: if it were removed, one process could hold the lock of the file that
	// is gone and another one that of the new file.
	// NFS has locks by fcntl, which want an open mode to match
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	switch ok, err := try(lock); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrLocked
	}
	return lock, nil
}
