package reuse

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// The keys of a part are in _job/keys/part-00000.keys:
//
//	"QUIREK1\n", the length of the header (u32), the header as JSON
//	the entries, sorted by their keys, 56 bytes each
//	the first 16 bytes of the SHA-256 of all that
//
// Numbers are little-endian. A file that is damaged or missing gives nothing, and harms nothing.
const (
	keysFolder = folder.JobFolder + "/keys"
	keysName   = "part-%05d.keys"
	magic      = "QUIREK1\n"
	entrySize  = 56
	sumSize    = 16
	maxKeys    = 1 << 30
)

// header describes the keys of a part.
type header struct {
	Part     int      `json:"part"`
	Format   string   `json:"format"`
	Basis    Basis    `json:"basis"`
	Excluded []string `json:"excluded,omitempty"` // columns of completions that the part leaves out
	Extras   []Extras `json:"extras"`             // by their numbers in entries
	Sources  []string `json:"sources,omitempty"`  // places that completions were copied from
	Store    string   `json:"store,omitempty"`    // the one of them that is a store
}

// number returns the number of extras.
func (h *header) number(e Extras) uint16 {
	i := slices.IndexFunc(h.Extras, e.Equal)
	if i < 0 {
		i, h.Extras = len(h.Extras), append(h.Extras, e)
	}
	return uint16(i)
}

// How the completions of a request came to be in a part.
const (
	Generated = 1 << iota // by the process that wrote the part
	Copied                // from a source
	Repeated              // of another row of the job, or of another generation
	Kept                  // by an earlier process of the job, from its journal or an earlier version of the part
)

// entry is the position of the completions of a request, all without errors.
type entry struct {
	key                Key
	content            uint64 // digest of the completions
	id                 uint64
	prompt, parameters uint32
	position           uint32 // of the first of them, in rows of the part
	first, count       uint32 // their generations
	extras             uint16
	origin             uint8
	source             uint8 // number of the source of copies
}

func (e *entry) append(b []byte) []byte {
	b = append(b, e.key[:]...)
	b = binary.LittleEndian.AppendUint64(b, e.content)
	b = binary.LittleEndian.AppendUint64(b, e.id)
	for _, n := range []uint32{e.prompt, e.parameters, e.position, e.first, e.count} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = binary.LittleEndian.AppendUint16(b, e.extras)
	return append(b, e.origin, e.source)
}

func parseEntry(b []byte) (e entry) {
	copy(e.key[:], b)
	e.content, e.id = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	for i, n := range []*uint32{&e.prompt, &e.parameters, &e.position, &e.first, &e.count} {
		*n = binary.LittleEndian.Uint32(b[32+4*i:])
	}
	e.extras, e.origin, e.source = binary.LittleEndian.Uint16(b[52:]), b[54], b[55]
	return e
}

// partKeys are the keys of a part.
type partKeys struct {
	header
	entries []byte
}

func (k *partKeys) len() int          { return len(k.entries) / entrySize }
func (k *partKeys) key(i int) []byte  { return k.entries[i*entrySize : i*entrySize+len(Key{})] }
func (k *partKeys) entry(i int) entry { return parseEntry(k.entries[i*entrySize:]) }

// find returns the entries with a key.
func (k *partKeys) find(key Key) (found []entry) {
	low, high := 0, k.len()
	for low < high {
		if mid := (low + high) / 2; bytes.Compare(k.key(mid), key[:]) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	for ; low < k.len() && bytes.Equal(k.key(low), key[:]); low++ {
		found = append(found, k.entry(low))
	}
	return found
}

// encode returns the file of a part's keys.
func encode(h header, entries []entry) ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.position, b.position))
	})
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(text)))
	b = append(b, text...)
	for i := range entries {
		b = entries[i].append(b)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:sumSize]...), nil
}

var errKeys = errors.New("its keys are damaged")

// parse reads what encode wrote.
func parse(b []byte) (*partKeys, error) {
	start := len(magic) + 4
	if len(b) < start+sumSize || string(b[:len(magic)]) != magic {
		return nil, errKeys
	}
	b, want := b[:len(b)-sumSize], b[len(b)-sumSize:]
	if sum := sha256.Sum256(b); !bytes.Equal(sum[:sumSize], want) {
		return nil, errKeys
	}
	size := int(binary.LittleEndian.Uint32(b[len(magic):]))
	if size > len(b)-start || (len(b)-start-size)%entrySize != 0 {
		return nil, errKeys
	}
	k := &partKeys{entries: b[start+size:]}
	if json.Unmarshal(b[start:start+size], &k.header) != nil {
		return nil, errKeys
	}
	for i := range k.len() {
		if e := k.entry(i); int(e.extras) >= len(k.Extras) {
			return nil, errKeys
		}
	}
	return k, nil
}

// keysPlace is where the keys of an output are.
type keysPlace struct {
	ctx    context.Context
	fs     vfs.FS
	output string
}

// name names the output.
func (p keysPlace) name() string { return storage.Redact(p.output) }

func (p keysPlace) path(part int) string {
	name := fmt.Sprintf(keysName, part)
	if storage.IsRemote(p.output) {
		return storage.Join(storage.Join(p.output, keysFolder), name)
	}
	return filepath.Join(p.output, filepath.FromSlash(keysFolder), name)
}

// list returns the numbers of the parts that have keys.
func (p keysPlace) list() (parts []int, err error) {
	var names []string
	if storage.IsRemote(p.output) {
		files, listErr := storage.List(p.ctx, storage.Join(p.output, keysFolder))
		for _, f := range files {
			name := storage.Path(f.Name) // without parameters, which may have slashes
			names = append(names, name[strings.LastIndexByte(name, '/')+1:])
		}
		err = listErr
	} else {
		names, err = p.fs.List(filepath.Dir(p.path(0)))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		var part int
		if n, _ := fmt.Sscanf(name, keysName, &part); n == 1 && fmt.Sprintf(keysName, part) == name {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts, err
}

// read reads the keys of a part; they are nil if it has none.
func (p keysPlace) read(part int) (*partKeys, error) {
	var b []byte
	var err error
	if storage.IsRemote(p.output) {
		b, err = storage.ReadFile(p.ctx, p.path(part), maxKeys)
	} else {
		b, err = readLocal(p.fs, p.path(part))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k, err := parse(b)
	if err == nil && k.Part != part {
		err = errKeys
	}
	return k, err
}

func readLocal(files vfs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size > maxKeys {
		return nil, cmp.Or(err, errKeys)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

// write writes the keys of a part, in place of those of an earlier version of it. They need not survive a loss of
// power: the file's digest reveals what is not whole.
func (p keysPlace) write(part int, b []byte) error {
	name := p.path(part)
	if storage.IsRemote(p.output) {
		err := storage.Put(p.ctx, name, bytes.NewReader(b))
		if errors.Is(err, fs.ErrExist) {
			if err = storage.Remove(p.ctx, name); err == nil {
				err = storage.Put(p.ctx, name, bytes.NewReader(b))
			}
		}
		return err
	}
	err := p.fs.MkdirAll(filepath.Dir(name))
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	f, err := p.fs.Create(name + ".tmp")
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = p.fs.Rename(name+".tmp", name)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

// Clear removes the keys of a local output.
func Clear(files vfs.FS, output string) error {
	p := keysPlace{fs: files, output: output}
	parts, err := p.list()
	for _, part := range parts {
		if err == nil {
			err = files.Remove(p.path(part))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot clear the output folder: %w", err)
	}
	return nil
}
