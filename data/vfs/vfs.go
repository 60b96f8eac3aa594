// Package vfs is the file layer below a job's output. It provides the few operations that must survive a crash, on
// real files ([OS]), on files in memory that can lose what was not synced ([Mem]), and with injected errors
// ([Inject]).
//
// A file's bytes are durable once [File.Sync] has returned, and its name once [FS.SyncDir] of its folder has. A loss
// of power may lose anything else, in part or whole.
package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrLocked reports that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")

// File is an open file. A file from [FS.Open] cannot be written to.
type File interface {
	io.Writer   // appends
	io.ReaderAt //
	io.Closer
	// Sync makes the bytes written so far durable.
	Sync() error
	// Size returns the length in bytes.
	Size() (int64, error)
}

// FS is a file system. Errors satisfy errors.Is with fs.ErrNotExist and the like.
type FS interface {
	// Create creates an empty file and replaces an existing one.
	Create(name string) (File, error)
	// Append opens a file for writing at its end, and creates it if needed.
	Append(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Rename renames a file within its folder and replaces a file with the new name.
	Rename(from, to string) error
	Remove(name string) error
	// MkdirAll creates a folder and the folders above it, and makes their names durable.
	MkdirAll(dir string) error
	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)
	// SyncDir makes the names in a folder durable: created, changed and removed ones.
	SyncDir(dir string) error
	// Lock takes a lock that one process holds at a time, until it closes the lock or dies. The lock's file stays.
	// The error is [ErrLocked] while another process holds it.
	Lock(name string) (io.Closer, error)
	// LockShared takes a lock that any number of processes hold at a time, while none holds it by Lock; otherwise the
	// error is [ErrLocked].
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
	// Also for reading: a process that appends first looks at what the previous one left.
	return opened(os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666))
}

func (machine) Open(name string) (File, error) { return opened(os.Open(name)) }

func (machine) Rename(from, to string) error { return os.Rename(from, to) }

func (machine) Remove(name string) error { return os.Remove(name) }

func (m machine) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	above := filepath.Dir(dir)
	if _, err := os.Stat(dir); err == nil {
		// The folder's creator may have died before its sync. Folders above an old one need not be ours to sync.
		_ = m.SyncDir(above)
		return os.MkdirAll(dir, 0o777) // fails if it is not a folder
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
	// The file stays when the lock is released: if it were removed, one process could hold the lock of the removed
	// file and another the lock of a new one. NFS implements locks by fcntl, which wants an open mode to match
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	switch ok, err := try(lock); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrLocked
	}
	return lock, nil
}
