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
	// partialGap is how many bytes that nobody asked for are read rather than making another request: about what comes
	// in the time of one, 16 at a time.
	partialGap = 1 << 20
	// partialPiece is the most that one request asks for, partialRequests how many are under way.
	partialPiece    = 8 << 20
	partialRequests = 16
	// partialNote is after how many bytes it is noted which there are.
	partialNote = 1 << 30
)

// PartialOptions are those of OpenPartial.
type PartialOptions struct {
	// Gap is how many bytes between two ranges are read with them, to make one request of two; 0 is 1 MiB.
	Gap      int64
	Progress Progress
}

// Partial is a local copy of one version of an object that has the bytes that were asked for, and zeros in place of the
// others, which take no room on the disk. It is safe for concurrent use, also by several processes.
type Partial struct {
	path   string
	object source // nil if the whole is there
	ctx    context.Context
	gap    int64
	file   *os.File
	report Progress

	mu      sync.Mutex
	have    ranges
	unnoted int64 // bytes that came since what there is was noted
}

// source is one version of a file elsewhere, of which parts can be read.
type source interface {
	label() string
	length() int64
	// fill reads exactly len(p) bytes from offset on.
	fill(ctx context.Context, p []byte, offset int64) error
}

func (o *objectVersion) label() string { return o.name }
func (o *objectVersion) length() int64 { return o.version.size }

// OpenPartial opens a partial copy of an object in the folder cache, the same that Fetch keeps whole ones in. What
// earlier calls brought is there already; a whole copy is taken as it is. Ranges are pinned to the version of the
// object, and not checked against its checksum, which is that of the whole. A local name is opened as it is. ctx bounds
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

// newPartial opens the copy of a version in its folder of the cache.
func newPartial(ctx context.Context, of source, dir, base string, o PartialOptions) (*Partial, error) {
	p := &Partial{object: of, ctx: ctx, gap: o.Gap, report: o.Progress}
	if p.gap == 0 {
		p.gap = partialGap
	}
	return p, failed("fetch", of.label(), p.open(dir, base))
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

// Path is the local file.
func (p *Partial) Path() string { return p.path }

// Need brings ranges of the object, as far as they are not there.
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

// Close notes what is there, for the next who opens the copy.
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

// noted reads which bytes are there. What can't be read says that there are none.
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

// note writes which bytes are there, once they are on the disk, with those that other processes brought.
func (p *Partial) note() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(filepath.Dir(p.path), ".lock"))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Second) // also when a job was interrupted
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

// FetchFolderPartly is FetchFolder, but of the files that partly chooses it makes partial copies, which it returns by
// their paths in the folder. They are the caller's to close.
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
