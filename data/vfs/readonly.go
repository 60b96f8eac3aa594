package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// IsReadOnly reports whether an operation failed because this process may not write there.
func IsReadOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

// ReadOnly returns a read-only view of base: nothing is locked or synced, and writes fail with an error for which
// [IsReadOnly] holds.
func ReadOnly(base FS) FS { return readOnly{base} }

type readOnly struct{ base FS }

func refused(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (r readOnly) Create(name string) (File, error)  { return nil, refused("create", name) }
func (r readOnly) Append(name string) (File, error)  { return nil, refused("append", name) }
func (r readOnly) Open(name string) (File, error)    { return r.base.Open(name) }
func (r readOnly) Rename(_, to string) error         { return refused("rename", to) }
func (r readOnly) Remove(name string) error          { return refused("remove", name) }
func (r readOnly) List(dir string) ([]string, error) { return r.base.List(dir) }
func (r readOnly) SyncDir(string) error              { return nil }

// MkdirAll does nothing if the folder exists.
func (r readOnly) MkdirAll(dir string) error {
	if _, err := r.base.List(dir); err != nil {
		return refused("mkdir", dir)
	}
	return nil
}

func (r readOnly) Lock(string) (io.Closer, error)       { return unlocked{}, nil }
func (r readOnly) LockShared(string) (io.Closer, error) { return unlocked{}, nil }

// unlocked is the closer of a lock that was not taken.
type unlocked struct{}

func (unlocked) Close() error { return nil }
