package reuse

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
)

// A store keeps completions of all jobs in packs: files with the digest of their content as names, which never change.
// So any number of processes may write to a store, and a pack that two of them write is the same.
//
//	"QUIRES1\n", the length of the keys (u32), the keys as a part has them, records
//
// The position of an entry is the offset of its first record. A record is the length of a completion (u32) and its
// binary form.
const (
	packMagic  = "QUIRES1\n"
	packSuffix = ".pack"
	// packBytes is how many bytes of completions a process gathers before it writes them.
	packBytes = 16 << 20
	maxPack   = 1 << 30
)

// Store looks completions up in a store. One goroutine uses it.
type Store struct {
	ctx     context.Context
	place   string
	basis   Basis
	warn    func(format string, args ...any)
	packs   []*storedPack
	damaged int
}

// storedPack is a pack whose completions match the job.
type storedPack struct {
	name   string
	filter filter
	keys   *partKeys
	start  int64 // of the records
	file   *storage.File
}

// OpenStore opens a store, which is made with the first completion that it gets, to look completions of a job up.
func OpenStore(ctx context.Context, place string, basis Basis, warn func(format string, args ...any)) (*Store, error) {
	s := &Store{ctx: ctx, place: place, basis: basis, warn: warn}
	packs, err := listPacks(ctx, place)
	if err != nil {
		return nil, err
	}
	for _, info := range packs {
		keys, start, err := readIndex(ctx, info.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was merged into another one
			continue
		case errors.Is(err, errKeys):
			s.damage(info.Name, err)
			continue
		case err != nil:
			return nil, err
		case keys.Basis != basis:
			continue
		}
		p := &storedPack{name: info.Name, filter: newFilter(keys.len()), keys: keys, start: start}
		for i := range keys.len() {
			p.filter.add(keys.key(i))
		}
		s.packs = append(s.packs, p)
	}
	return s, nil
}

// listPacks lists the packs of a store; there are none if it does not exist.
func listPacks(ctx context.Context, place string) ([]storage.Info, error) {
	files, err := storage.List(ctx, place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(files, func(f storage.Info) bool {
		return !strings.HasSuffix(storage.Path(f.Name), packSuffix)
	}), err
}

// readIndex reads the keys of a pack, and where its records start.
func readIndex(ctx context.Context, name string) (*partKeys, int64, error) {
	f, err := storage.Open(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	start := len(packMagic) + 4
	head := make([]byte, start)
	if n, err := f.ReadAt(head, 0); n < start {
		return nil, 0, cmp.Or(notEOF(err), errKeys)
	}
	size := int64(binary.LittleEndian.Uint32(head[len(packMagic):]))
	if string(head[:len(packMagic)]) != packMagic || size > f.Size()-int64(start) {
		return nil, 0, errKeys
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, int64(start)); int64(n) < size {
		return nil, 0, cmp.Or(notEOF(err), errKeys)
	}
	keys, err := parse(b)
	return keys, int64(start) + size, err
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Name names the place.
func (s *Store) Name() string { return storage.Redact(s.place) }

// Find returns the completions of a request that the store has.
func (s *Store) Find(ctx context.Context, k Keys, generations []int) (found []completion.Result) {
	left := slices.Clone(generations)
	for _, p := range s.packs {
		if len(left) == 0 || !p.filter.mayHave(k.Key[:]) {
			continue
		}
		for _, e := range p.keys.find(k.Key) {
			if !e.gives(k, left) || p.keys.Extras[e.extras].Lacks(k.Extras) != "" {
				continue
			}
			results, err := p.read(s.ctx, &e)
			if err != nil {
				s.damage(p.name, err)
				continue
			}
			for _, r := range pick(results, k, left) {
				k.Extras.Strip(&r)
				found = append(found, r)
				left = slices.DeleteFunc(left, func(g int) bool { return g == r.Generation })
			}
		}
	}
	return found
}

// Lacks returns which of the generations of a request the store lacks, without reading those that it has.
func (s *Store) Lacks(k Keys, generations []int) []int {
	left := slices.Clone(generations)
	for _, p := range s.packs {
		if len(left) > 0 && p.filter.mayHave(k.Key[:]) {
			left = p.keys.lacks(k, left)
		}
	}
	return left
}

func (s *Store) damage(pack string, err error) {
	if s.ctx.Err() != nil {
		return
	}
	if s.damaged++; s.damaged == 1 {
		s.warn("warning: completions in %s, which could be copied, are generated: %v", storage.Redact(pack), err)
	}
}

// read reads the completions of an entry.
func (p *storedPack) read(ctx context.Context, e *entry) (results []completion.Result, err error) {
	if p.file == nil {
		if p.file, err = storage.Open(ctx, p.name); err != nil {
			return nil, err
		}
	}
	in := io.NewSectionReader(p.file, p.start+int64(e.position), p.file.Size()-p.start-int64(e.position))
	for range e.count {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, err
		}
		n := int64(binary.LittleEndian.Uint32(head[:]))
		if n > in.Size() {
			return nil, errors.New("a record is longer than the file")
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		var r completion.Result
		if err := r.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	if contentDigest(results, nil) != e.content {
		return nil, errors.New("they are not what was noted")
	}
	return results, nil
}

// Close ends reading.
func (s *Store) Close() {
	for _, p := range s.packs {
		if p.file != nil {
			p.file.Close()
			p.file = nil
		}
	}
}

// StoreWriter gathers completions, and writes them to a store. Its methods may be called from several goroutines.
type StoreWriter struct {
	ctx   context.Context
	place string

	mu sync.Mutex
	pack
}

// pack is a pack that is being made.
type pack struct {
	header  header
	entries []entry
	records []byte
}

// NewStoreWriter returns what writes completions of a job to a store.
func NewStoreWriter(ctx context.Context, place string, basis Basis) *StoreWriter {
	return &StoreWriter{ctx: context.WithoutCancel(ctx), place: place, pack: pack{header: header{Basis: basis}}}
}

// Add takes the completions of a request, in order, none with an error. It writes a pack if there is enough for one.
func (w *StoreWriter) Add(named *Named, results []completion.Result) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	own := slices.Clone(completionsOf(named, results))
	if own == nil {
		return nil
	}
	for i := range own {
		named.Extras.Strip(&own[i])
	}
	w.add(entry{key: named.Key, id: named.ID, prompt: named.Prompt, parameters: named.Parameters,
		extras: w.header.number(named.Extras)}, own)
	if len(w.records) < packBytes {
		return nil
	}
	return w.flush()
}

// add adds completions with their entry.
func (p *pack) add(e entry, results []completion.Result) {
	e.content, e.position = contentDigest(results, nil), uint32(len(p.records))
	e.first, e.count = uint32(results[0].Generation), uint32(len(results))
	for _, r := range results {
		start := len(p.records)
		p.records = append(p.records, 0, 0, 0, 0)
		p.records, _ = r.AppendBinary(p.records)
		binary.LittleEndian.PutUint32(p.records[start:], uint32(len(p.records)-start-4))
	}
	p.entries = append(p.entries, e)
}

// Flush writes what was gathered.
func (w *StoreWriter) Flush() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *StoreWriter) flush() error {
	if len(w.entries) == 0 {
		return nil
	}
	_, err := w.pack.write(w.ctx, w.place)
	w.pack = pack{header: header{Basis: w.header.Basis}}
	return err
}

// write puts a pack into a store, and returns its name.
func (p *pack) write(ctx context.Context, place string) (name string, err error) {
	index, err := encode(p.header, p.entries)
	if err != nil {
		return "", err
	}
	b := binary.LittleEndian.AppendUint32([]byte(packMagic), uint32(len(index)))
	b = append(append(b, index...), p.records...)
	sum := sha256.Sum256(b)
	name = storage.Join(place, hex.EncodeToString(sum[:])+packSuffix)
	err = storage.Put(ctx, name, bytes.NewReader(b))
	if errors.Is(err, fs.ErrExist) { // a pack of that name is damaged
		if err = storage.Remove(ctx, name); err == nil {
			err = storage.Put(ctx, name, bytes.NewReader(b))
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot write to the store: %w", err)
	}
	return name, nil
}

// Stored describes the content of a store.
type Stored struct {
	Place       string        `json:"place"`
	Packs       int           `json:"packs"`
	Bytes       int64         `json:"bytes"`
	Completions int64         `json:"completions"`
	Repeated    int64         `json:"repeated"` // completions that are there again
	Damaged     []string      `json:"damaged,omitempty"`
	Models      []StoredModel `json:"models"` // by model and arithmetic
}

// StoredModel is what a store has of a model.
type StoredModel struct {
	Basis
	Completions int64 `json:"completions"`
}

// Stats reads the keys of a store.
func Stats(ctx context.Context, place string) (*Stored, error) {
	packs, err := listPacks(ctx, place)
	if err != nil {
		return nil, err
	}
	s := &Stored{Place: storage.Redact(place), Models: []StoredModel{}}
	seen := map[Name]bool{}
	for _, info := range packs {
		keys, _, err := readIndex(ctx, info.Name)
		if errors.Is(err, errKeys) {
			s.Damaged = append(s.Damaged, storage.Redact(info.Name))
			continue
		}
		if err != nil {
			return nil, err
		}
		s.Packs++
		s.Bytes += info.Size
		i := slices.IndexFunc(s.Models, func(m StoredModel) bool { return m.Basis == keys.Basis })
		if i < 0 {
			i, s.Models = len(s.Models), append(s.Models, StoredModel{Basis: keys.Basis})
		}
		for n := range keys.len() {
			e := keys.entry(n)
			for g := range e.count {
				name := Name{e.key, int(e.first + g)}
				if s.Completions++; seen[name] {
					s.Repeated++
				}
				seen[name] = true
			}
			s.Models[i].Completions += int64(e.count)
		}
	}
	return s, nil
}

// Collection is what [Collect] keeps.
type Collection struct {
	MaxBytes int64         // 0 is no bound
	MaxAge   time.Duration // 0 is no bound
}

// Collect removes what a store need not have: damaged packs, packs that are older than wanted, the oldest ones until
// the others fit, and completions that are there again. It joins small packs. Jobs may use the store meanwhile: what
// they do not find any more, they generate.
func Collect(ctx context.Context, place string, keep Collection) (removed int, err error) {
	packs, err := listPacks(ctx, place)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(packs, func(a, b storage.Info) int { return b.ModTime.Compare(a.ModTime) }) // the newest first
	joined := map[Basis][]storage.Info{}
	total := int64(0)
	for _, info := range packs {
		keys, _, err := readIndex(ctx, info.Name)
		total += info.Size
		switch {
		case err != nil && !errors.Is(err, errKeys):
			return removed, err
		case err != nil, keep.MaxAge > 0 && time.Since(info.ModTime) > keep.MaxAge,
			keep.MaxBytes > 0 && total > keep.MaxBytes:
			total -= info.Size
			if err := storage.Remove(ctx, info.Name); err != nil {
				return removed, err
			}
			removed++
		case info.Size < 2*packBytes:
			joined[keys.Basis] = append(joined[keys.Basis], info)
		}
	}
	for basis, some := range joined {
		n, err := join(ctx, place, basis, some)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// join writes the completions of packs into as few as fit, each once, and removes them.
func join(ctx context.Context, place string, basis Basis, packs []storage.Info) (removed int, err error) {
	if len(packs) < 2 {
		return 0, nil
	}
	next, seen := pack{header: header{Basis: basis}}, map[string]bool{}
	var old []string
	flush := func() error {
		if len(next.entries) == 0 {
			return nil
		}
		name, err := next.write(ctx, place)
		for _, pack := range old {
			if err == nil && storage.Path(pack) != storage.Path(name) {
				if err = storage.Remove(ctx, pack); err == nil {
					removed++
				}
			}
		}
		next, old = pack{header: header{Basis: basis}}, nil
		return err
	}
	for _, info := range packs {
		keys, start, err := readIndex(ctx, info.Name)
		if err != nil {
			return removed, err
		}
		p := &storedPack{name: info.Name, keys: keys, start: start}
		for i := range keys.len() {
			e := keys.entry(i)
			extras := keys.Extras[e.extras]
			name := fmt.Sprint(e.key, e.first, e.count, extras)
			results, err := p.read(ctx, &e)
			if err != nil || seen[name] { // damaged completions are left out
				continue
			}
			seen[name] = true
			e.extras = next.header.number(extras)
			next.add(e, results)
		}
		if p.file != nil {
			p.file.Close()
		}
		if old = append(old, info.Name); len(next.records) >= packBytes {
			if err := flush(); err != nil {
				return removed, err
			}
		}
	}
	return removed, flush()
}
