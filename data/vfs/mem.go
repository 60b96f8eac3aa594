package vfs

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
)

// Mem is a file system in memory that records which of its contents are durable. It may be used from several
// goroutines. Folders need not be created.
type Mem struct {
	mu     sync.Mutex
	dirs   map[string]*memDir
	locked map[string]int // number of shared holders of each lock; -1 if it is held exclusively
}

// memDir is a folder: its current names, and the changes since the durable ones.
type memDir struct {
	names   map[string]*memData
	lasting map[string]*memData
	changes []change // changes since the last sync, in order
}

// change maps names to their new files; nil means that a name was removed.
type change map[string]*memData

func (c change) do(names map[string]*memData) {
	for name, data := range c {
		if names[name] = data; data == nil {
			delete(names, name)
		}
	}
}

// memData is the content of a file.
type memData struct {
	bytes  []byte
	synced int // how many of the bytes are durable
}

// NewMem returns an empty file system.
func NewMem() *Mem { return &Mem{dirs: map[string]*memDir{}, locked: map[string]int{}} }

func (m *Mem) dir(name string) *memDir {
	d := m.dirs[name]
	if d == nil {
		d = &memDir{names: map[string]*memData{}, lasting: map[string]*memData{}}
		m.dirs[name] = d
	}
	return d
}

func (d *memDir) change(c change) {
	c.do(d.names)
	d.changes = append(d.changes, c)
}

func notExist(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Create creates an empty file.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.create(name), nil
}

func (m *Mem) create(name string) *memFile {
	data := &memData{}
	m.dir(filepath.Dir(name)).change(change{filepath.Base(name): data})
	return &memFile{m: m, data: data, writable: true}
}

// Append opens a file for writing at its end.
func (m *Mem) Append(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data := m.dir(filepath.Dir(name)).names[filepath.Base(name)]; data != nil {
		return &memFile{m: m, data: data, writable: true}, nil
	}
	return m.create(name), nil
}

// Open opens a file for reading.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.dir(filepath.Dir(name)).names[filepath.Base(name)]
	if data == nil {
		return nil, notExist("open", name)
	}
	return &memFile{m: m, data: data}, nil
}

// Rename renames a file within its folder.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dir(filepath.Dir(from))
	if filepath.Dir(to) != filepath.Dir(from) {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrInvalid}
	}
	data := d.names[filepath.Base(from)]
	if data == nil {
		return notExist("rename", from)
	}
	c := change{filepath.Base(from): nil}
	c[filepath.Base(to)] = data // after the removal, because both names may be equal
	d.change(c)
	return nil
}

// Remove removes a file.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dir(filepath.Dir(name))
	if d.names[filepath.Base(name)] == nil {
		return notExist("remove", name)
	}
	d.change(change{filepath.Base(name): nil})
	return nil
}

// MkdirAll creates a folder and the folders above it.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if m.dir(dir); dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// List returns the names of the files and folders in a folder.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent := filepath.Clean(dir)
	d := m.dirs[parent]
	if d == nil {
		return nil, notExist("list", dir)
	}
	var names []string
	for name := range d.names {
		names = append(names, name)
	}
	for dir := range m.dirs {
		if dir != parent && filepath.Dir(dir) == parent {
			names = append(names, filepath.Base(dir))
		}
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir makes the names in a folder durable.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dir(filepath.Clean(dir))
	for _, c := range d.changes {
		c.do(d.lasting)
	}
	d.changes = nil
	return nil
}

// Lock takes an exclusive lock.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[name] != 0 {
		return nil, ErrLocked
	}
	m.locked[name] = -1
	return &memLock{m: m, name: name}, nil
}

// LockShared takes a shared lock.
func (m *Mem) LockShared(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[name] < 0 {
		return nil, ErrLocked
	}
	m.locked[name]++
	return &memLock{m: m, name: name}, nil
}

type memLock struct {
	m      *Mem
	name   string
	closed bool
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	switch {
	case l.closed:
	case l.m.locked[l.name] <= 1:
		delete(l.m.locked, l.name)
	default:
		l.m.locked[l.name]--
	}
	l.closed = true
	return nil
}

// Killed returns the file system as a new process finds it after the old one was killed: all writes are there and the
// locks are free. Writes that were not synced are still not durable. Files that are open in m are detached from the
// result.
func (m *Mem) Killed() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, copied := NewMem(), map[*memData]*memData{nil: nil}
	all := func(names map[string]*memData) map[string]*memData {
		c := map[string]*memData{}
		for name, data := range names {
			if _, ok := copied[data]; !ok {
				copied[data] = &memData{bytes: slices.Clone(data.bytes), synced: data.synced}
			}
			c[name] = copied[data]
		}
		return c
	}
	for name, d := range m.dirs {
		n := next.dir(name)
		n.names, n.lasting = all(d.names), all(d.lasting)
		for _, c := range d.changes {
			n.changes = append(n.changes, all(c))
		}
	}
	return next
}

// PowerLost returns the file system after a loss of power. Some of what was not synced survives, as on real disks: a
// prefix of the changes of a folder; and of a file's bytes none, some, or garbage in their place.
func (m *Mem) PowerLost(random *rand.Rand) *Mem {
	names := func(d *memDir) map[string]*memData {
		names := maps.Clone(d.lasting)
		if len(d.changes) > 0 {
			for _, c := range d.changes[:random.IntN(len(d.changes)+1)] {
				c.do(names)
			}
		}
		return names
	}
	bytes := func(f *memData) []byte {
		lost := len(f.bytes) - f.synced
		if lost == 0 {
			return f.bytes
		}
		kept := f.bytes[:f.synced+random.IntN(lost+1)]
		switch rest := len(f.bytes) - len(kept); random.IntN(4) {
		case 0:
			return f.bytes[:f.synced]
		case 1:
			return append(slices.Clone(kept), make([]byte, rest)...)
		case 2:
			noise := make([]byte, rest)
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			return append(slices.Clone(kept), noise...)
		}
		return kept
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := NewMem()
	for _, dir := range sortedKeys(m.dirs) {
		d := next.dir(dir)
		kept := names(m.dirs[dir])
		for _, name := range sortedKeys(kept) {
			b := slices.Clone(bytes(kept[name]))
			data := &memData{bytes: b, synced: len(b)}
			d.names[name], d.lasting[name] = data, data
		}
	}
	return next
}

// sortedKeys returns the keys in a fixed order, so that random numbers are consumed reproducibly.
func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// memFile is an open file of a Mem.
type memFile struct {
	m        *Mem
	data     *memData
	writable bool
	closed   bool
}

func (f *memFile) Write(b []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed || !f.writable {
		return 0, fs.ErrClosed
	}
	f.data.bytes = append(f.data.bytes, b...)
	return len(b), nil
}

func (f *memFile) ReadAt(b []byte, offset int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if offset < 0 || offset > int64(len(f.data.bytes)) {
		return 0, io.EOF
	}
	n := copy(b, f.data.bytes[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.data.synced = len(f.data.bytes)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.data.bytes)), nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	return nil
}
