package vfs

import (
	"errors"
	"io"
)

// OpKind is a kind of operation.
type OpKind string

// The operations that a [Hook] sees.
const (
	OpCreate  OpKind = "create"
	OpAppend  OpKind = "append"
	OpOpen    OpKind = "open"
	OpRename  OpKind = "rename"
	OpRemove  OpKind = "remove"
	OpMkdir   OpKind = "mkdir"
	OpList    OpKind = "list"
	OpSyncDir OpKind = "syncdir"
	OpLock    OpKind = "lock"
	OpWrite   OpKind = "write"
	OpRead    OpKind = "read"
	OpSync    OpKind = "sync"
)

// Op is an operation that is about to be performed.
type Op struct {
	Kind OpKind
	Name string // name of the file or folder, as it was opened
	Len  int    // bytes of a write or read
}

// Hook is called before each operation. If it returns an error, the operation fails with this error and is not
// performed. To perform only the first bytes of a write, return a [*ShortWrite].
type Hook func(op Op) error

// ShortWrite makes a write end after N bytes.
type ShortWrite struct {
	N   int
	Err error
}

func (e *ShortWrite) Error() string { return e.Err.Error() }
func (e *ShortWrite) Unwrap() error { return e.Err }

// Inject returns a file system whose operations fail when the hook returns an error. The hook may be called from
// several goroutines.
func Inject(base FS, hook Hook) FS { return &injected{base, hook} }

type injected struct {
	base FS
	hook Hook
}

type injectedFile struct {
	File
	fs   *injected
	name string
}

func (i *injected) file(kind OpKind, name string, open func(string) (File, error)) (File, error) {
	if err := i.hook(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return &injectedFile{f, i, name}, nil
}

func (i *injected) do(kind OpKind, name string, op func() error) error {
	if err := i.hook(Op{Kind: kind, Name: name}); err != nil {
		return err
	}
	return op()
}

func (i *injected) Create(name string) (File, error) { return i.file(OpCreate, name, i.base.Create) }
func (i *injected) Append(name string) (File, error) { return i.file(OpAppend, name, i.base.Append) }
func (i *injected) Open(name string) (File, error)   { return i.file(OpOpen, name, i.base.Open) }

func (i *injected) Rename(from, to string) error {
	return i.do(OpRename, to, func() error { return i.base.Rename(from, to) })
}

func (i *injected) Remove(name string) error {
	return i.do(OpRemove, name, func() error { return i.base.Remove(name) })
}

func (i *injected) MkdirAll(dir string) error {
	return i.do(OpMkdir, dir, func() error { return i.base.MkdirAll(dir) })
}

func (i *injected) SyncDir(dir string) error {
	return i.do(OpSyncDir, dir, func() error { return i.base.SyncDir(dir) })
}

func (i *injected) List(dir string) ([]string, error) {
	if err := i.hook(Op{Kind: OpList, Name: dir}); err != nil {
		return nil, err
	}
	return i.base.List(dir)
}

func (i *injected) Lock(name string) (io.Closer, error) {
	if err := i.hook(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	return i.base.Lock(name)
}

func (i *injected) LockShared(name string) (io.Closer, error) {
	if err := i.hook(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	return i.base.LockShared(name)
}

func (f *injectedFile) Write(b []byte) (int, error) {
	if err := f.fs.hook(Op{Kind: OpWrite, Name: f.name, Len: len(b)}); err != nil {
		n := 0
		if short := (*ShortWrite)(nil); errors.As(err, &short) {
			n, _ = f.File.Write(b[:min(short.N, len(b))])
		}
		return n, err
	}
	return f.File.Write(b)
}

func (f *injectedFile) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.fs.hook(Op{Kind: OpRead, Name: f.name, Len: len(b)}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, offset)
}

func (f *injectedFile) Sync() error {
	if err := f.fs.hook(Op{Kind: OpSync, Name: f.name}); err != nil {
		return err
	}
	return f.File.Sync()
}
