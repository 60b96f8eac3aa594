package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"
)

const (
	// partialGap is how many unwanted bytes are read to avoid another request: about as many as arrive in the time of
	// one request, with 16 at a time.
	partialGap = 1 << 20
	// partialPiece is the largest request, and partialRequests the number of concurrent ones.
	partialPiece    = 8 << 20
	partialRequests = 16
	// partialNote is the number of new bytes after which a note of the existing ones is written.
	partialNote = 1 << 30
)

// PartialOptions are the options of OpenPartial.
type PartialOptions struct {
	// Gap is the largest number of bytes between two ranges that are read too, to merge the requests; 0 is 1 MiB.
	Gap      int64
	Progress Progress
}

// Partial is a local copy of one version of an object. It has the bytes that were requested, and holes in place of
// the others, which take no disk space. It is safe for concurrent use, also by several processes.
type Partial struct {
	path   string
	object source // nil if the copy is complete
	ctx    context.Context
	gap    int64
	file   *os.File
	report Progress

	mu      sync.Mutex
	have    ranges
	unnoted int64 // number of bytes that arrived since the last note
}

// source is one version of a remote file, of which parts can be read.
type source interface {
	label() string
	length() int64
	// fill reads exactly len(p) bytes at offset.
	fill(ctx context.Context, p []byte, offset int64) error
}

func (o *objectVersion) label() string { return o.name }
func (o *objectVersion) length() int64 { return o.version.size }

// OpenPartial opens a partial copy of an object in the folder cache, in which Fetch also keeps complete copies. What
// earlier calls fetched is reused, and a complete copy is used as it is. Ranges are pinned to the version of the
// object, but not checked against its checksum, which covers the whole. A local name is opened directly. ctx bounds
// all use.
func OpenPartial(ctx context.Context, name, cache string, o PartialOptions) (*Partial, error) {
	l, err := parse(name)
	if err != nil {
		return nil, failed("fetch", name, err)
	}
	if l.scheme == "" {
		return &Partial{path: l.key}, nil
	}
	object, info, err := l.lookUp(ctx)
	if err != nil {
		return nil, failed("fetch", name, err)
	}
	dir, err := versionFolder(l, object, info, cache)
	if err != nil {
		return nil, failed("fetch", name, err)
	}
	return newPartial(ctx, object, dir, path.Base(l.key), o)
}

// newPartial opens the copy of a version in its cache folder.
func newPartial(ctx context.Context, object source, dir, base string, o PartialOptions) (*Partial, error) {
	p := &Partial{object: object, ctx: ctx, gap: o.Gap, report: o.Progress}
	if p.gap == 0 {
		p.gap = partialGap
	}
	return p, failed("fetch", object.label(), p.open(dir, base))
}

func (p *Partial) open(dir, base string) (err error) {
	if whole := filepath.Join(dir, base); isFile(whole) {
		p.path, p.object = whole, nil
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return err
	}
	p.path = filepath.Join(dir, "partial", base)
	if p.file, err = os.OpenFile(p.path, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return err
	}
	if err := p.file.Truncate(p.object.length()); err != nil { // a hole
		return errors.Join(err, p.file.Close())
	}
	p.have, err = p.noted()
	return err
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// Path returns the path of the local file.
func (p *Partial) Path() string { return p.path }

// Need fetches ranges of the object that are missing.
func (p *Partial) Need(list ...Range) error {
	if p.object == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return failed("fetch", p.object.label(), p.bring(union(list)))
}

func (p *Partial) bring(want ranges) error {
	size := p.object.length()
	if n := len(want); n > 0 && (want[0].From < 0 || want[n-1].To > size) {
		return fmt.Errorf("it has %d bytes, but those from %d to %d were requested", size, want[0].From, want[n-1].To)
	}
	missing := want.without(p.have)
	if len(missing) == 0 {
		return nil
	}
	fetch := missing.joined(p.gap).cut(partialPiece)
	group, ctx := errgroup.WithContext(p.ctx)
	group.SetLimit(partialRequests)
	came := make([]bool, len(fetch))
	for i, r := range fetch {
		group.Go(func() error {
			data := make([]byte, r.Len())
			if err := p.object.fill(ctx, data, r.From); err != nil {
				return err
			}
			if _, err := p.file.WriteAt(data, r.From); err != nil {
				return err
			}
			came[i] = true
			return nil
		})
	}
	err := group.Wait()
	all := slices.Clone(p.have)
	for i, r := range fetch {
		if came[i] {
			all = append(all, r)
			p.unnoted += r.Len()
		}
	}
	p.have = union(all)
	if p.report != nil {
		p.report(Redact(p.object.label()), p.have.bytes(), size)
	}
	if err == nil && p.unnoted >= partialNote {
		err = p.note()
	}
	return err
}

// Close writes a note of the existing bytes, for the next process that opens the copy.
func (p *Partial) Close() error {
	if p.file == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.unnoted > 0 {
		err = p.note()
	}
	err = errors.Join(err, p.file.Close())
	p.file = nil
	return failed("fetch", p.object.label(), err)
}

func (p *Partial) notes() string { return filepath.Join(filepath.Dir(p.path), ".ranges.json") }

// noted reads which bytes exist, according to the note. An unreadable note means none.
func (p *Partial) noted() (ranges, error) {
	text, err := os.ReadFile(p.notes())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Range
	if json.Unmarshal(text, &list) != nil {
		return nil, nil
	}
	have := union(list)
	if n := len(have); n > 0 && (have[0].From < 0 || have[n-1].To > p.object.length()) {
		return nil, nil
	}
	return have, nil
}

// note writes which bytes exist, once they are on disk, merged with other processes' notes.
func (p *Partial) note() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(filepath.Dir(p.path), ".lock"))
	// also if the job was interrupted
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Second)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	defer lock.Unlock()
	others, err := p.noted()
	if err != nil {
		return err
	}
	p.have = union(append(others, p.have...))
	text, err := json.Marshal(p.have)
	if err != nil {
		return err
	}
	temp := p.notes() + ".tmp"
	if err := os.WriteFile(temp, text, 0o644); err != nil {
		return err
	}
	p.unnoted = 0
	return os.Rename(temp, p.notes())
}

// FetchFolderPartly is FetchFolder, except that files for which partly holds become partial copies. It returns these
// by their paths in the folder. The caller must close them.
func FetchFolderPartly(ctx context.Context, folder, cache string, want, partly func(file string) bool,
	o PartialOptions) (dir string, parts map[string]*Partial, err error) {
	parts = map[string]*Partial{}
	defer func() {
		if err != nil {
			for _, p := range parts {
				err = errors.Join(err, p.Close())
			}
		}
	}()
	dir, err = fetchFolder(ctx, folder, cache, want, func(name, file string) (string, error) {
		if !partly(file) {
			return Fetch(ctx, name, cache, o.Progress)
		}
		p, err := OpenPartial(ctx, name, cache, o)
		if err != nil {
			return "", err
		}
		parts[file] = p
		return p.Path(), nil
	})
	return dir, parts, err
}
