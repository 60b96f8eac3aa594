package reuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Source is a place that may have completions. One goroutine uses it.
type Source interface {
	// Name names the place.
	Name() string
	// Find returns the completions of a request that the source has and that are wanted, by their generations.
	Find(ctx context.Context, k Keys, generations []int) []completion.Result
	// Close ends reading.
	Close()
}

// Output looks completions up in the parts of an output.
type Output struct {
	place    keysPlace
	basis    Basis
	excluded []string // columns that the job leaves out, too
	warn     func(format string, args ...any)

	out     *promptset.Output // nil until a part is read
	parts   []*knownPart
	loaded  []*knownPart // parts whose keys are in memory, the one that was used last at the end
	cursors []*cursor    // the one that was used last at the end
	damaged int          // completions that are not what was noted
	why     string       // the first reason for which a part gives nothing
}

// knownPart is a part whose keys match the job.
type knownPart struct {
	number int
	filter filter
	keys   *partKeys // nil if they are not in memory
}

// Bounds of what is kept in memory of an output, in addition to the filters.
const (
	keysLoaded    = 16 // parts
	cursorsOpened = 8
	// skippedRows is how many rows of a part are read to get to a later one, rather than opening the part again.
	skippedRows = 512
)

// CheckPlaces returns an error if a place is not a folder.
func CheckPlaces(ctx context.Context, places []string) error {
	for _, place := range places {
		info, err := storage.Stat(ctx, place)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || !info.Folder {
			return outcome.Errorf(outcome.Misused, "`reuse` %s is no output folder", storage.Redact(place))
		}
	}
	return nil
}

// OpenOutput opens an output to look completions of a job up, whose output leaves out columns. Warnings go to warn.
func OpenOutput(ctx context.Context, files vfs.FS, output string, basis Basis, excluded []string,
	warn func(format string, args ...any)) (*Output, error) {
	o := &Output{place: keysPlace{ctx, files, output}, basis: basis, excluded: excluded, warn: warn}
	if err := o.AddAll(func(int) bool { return true }); err != nil {
		return nil, err
	}
	if o.why == "" && len(o.parts) == 0 {
		o.why = "no part of it has keys: it answers a batch file, or a version of Quire wrote it that noted none"
	}
	return o, nil
}

// AddAll takes up the parts that have keys and that are wanted.
func (o *Output) AddAll(wanted func(part int) bool) error {
	parts, err := o.place.list()
	for _, part := range parts {
		if err == nil && wanted(part) {
			err = o.Add(part)
		}
	}
	return err
}

// Own returns the source of a job's own output, whose parts are added as they are published.
func Own(ctx context.Context, w Writing, warn func(format string, args ...any)) *Output {
	return &Output{place: keysPlace{ctx, w.FS, w.Output}, basis: w.Basis, excluded: w.Excluded, warn: warn}
}

// Name names the place.
func (o *Output) Name() string { return o.place.name() }

// Why states why the output gives nothing, or that parts of it do not; "" if all of it may give something.
func (o *Output) Why() string {
	if o.why == "" || len(o.parts) == 0 {
		return o.why
	}
	return "some of its parts give nothing: " + o.why
}

// Tell prints why the output gives nothing, if it does not.
func (o *Output) Tell(to interface {
	Printf(format string, args ...any)
}) {
	if why := o.Why(); why != "" {
		to.Printf("warning: `reuse` %s: %s", o.Name(), why)
	}
}

// Lacks returns which of the generations of a request the output lacks, without reading those that it has.
func (o *Output) Lacks(k Keys, generations []int) []int {
	left := slices.Clone(generations)
	for _, p := range o.parts {
		if len(left) == 0 || !p.filter.mayHave(k.Key[:]) {
			continue
		}
		keys, err := o.keysOf(p)
		if err != nil {
			continue
		}
		left = keys.lacks(k, left)
	}
	return left
}

// lacks returns which of the generations of a request have no entry.
func (p *partKeys) lacks(k Keys, left []int) []int {
	for _, e := range p.find(k.Key) {
		if p.Extras[e.extras].Lacks(k.Extras) == "" {
			left = slices.DeleteFunc(left, func(g int) bool { return e.gives(k, []int{g}) })
		}
	}
	return left
}

// Agreeing returns the basis of a part of the outputs, or of a pack of the store if there is one, that agrees with what
// is known of a basis before an engine is open: sizes, types and the arithmetic may not be. If none agrees, it returns
// what is known.
func Agreeing(ctx context.Context, files vfs.FS, outputs []string, store string, known Basis) (Basis, error) {
	for _, output := range outputs {
		place := keysPlace{ctx, files, output}
		parts, err := place.list()
		if err != nil {
			return known, err
		}
		for _, part := range parts {
			keys, err := place.read(part)
			if err != nil && !errors.Is(err, errKeys) {
				return known, err
			}
			if keys != nil && known.over(keys.Basis) == keys.Basis {
				return keys.Basis, nil
			}
		}
	}
	if store == "" {
		return known, nil
	}
	stored, err := Stats(ctx, store)
	if err != nil {
		return known, err
	}
	for _, m := range stored.Models {
		if known.over(m.Basis) == m.Basis {
			return m.Basis, nil
		}
	}
	return known, nil
}

// Add takes a part up, in place of an earlier version of it.
func (o *Output) Add(part int) error {
	o.forget(part)
	keys, err := o.place.read(part)
	switch {
	case errors.Is(err, errKeys):
		o.reason("part %d: %v", part, err)
		return nil
	case err != nil || keys == nil:
		return err
	case keys.Basis != o.basis:
		o.reason("%s", strings.Join(o.basis.Differences(keys.Basis), ", "))
		return nil
	}
	if i := slices.IndexFunc(keys.Excluded, func(c string) bool { return !slices.Contains(o.excluded, c) }); i >= 0 {
		o.reason("it has no column %s", keys.Excluded[i])
		return nil
	}
	p := &knownPart{number: part, filter: newFilter(keys.len())}
	for i := range keys.len() {
		p.filter.add(keys.key(i))
	}
	o.parts = append(o.parts, p)
	o.out = nil // it lists the parts that there were
	return nil
}

func (o *Output) reason(format string, args ...any) {
	o.why = cmp.Or(o.why, fmt.Sprintf(format, args...))
}

// forget takes a part out.
func (o *Output) forget(part int) {
	is := func(p *knownPart) bool { return p.number == part }
	o.parts, o.loaded = slices.DeleteFunc(o.parts, is), slices.DeleteFunc(o.loaded, is)
	o.cursors = slices.DeleteFunc(o.cursors, func(c *cursor) bool {
		if c.part != part {
			return false
		}
		c.stop()
		return true
	})
}

// Find returns the completions of a request that the output has.
func (o *Output) Find(ctx context.Context, k Keys, generations []int) (found []completion.Result) {
	left := slices.Clone(generations)
	for _, p := range o.parts {
		if len(left) == 0 {
			break
		}
		if !p.filter.mayHave(k.Key[:]) {
			continue
		}
		keys, err := o.keysOf(p)
		if err != nil {
			o.reason("part %d: %v", p.number, err)
			continue
		}
		for _, e := range keys.find(k.Key) {
			if !e.gives(k, left) || keys.Extras[e.extras].Lacks(k.Extras) != "" {
				continue
			}
			for _, r := range pick(o.read(ctx, p, keys, e), k, left) {
				k.Extras.Strip(&r)
				found = append(found, r)
				left = slices.DeleteFunc(left, func(g int) bool { return g == r.Generation })
			}
		}
	}
	return found
}

// gives reports whether an entry has one of the generations.
func (e *entry) gives(k Keys, generations []int) bool {
	return len(generations) > 0 && (k.Greedy || slices.ContainsFunc(generations, func(g int) bool {
		return g >= int(e.first) && g < int(e.first+e.count)
	}))
}

// pick returns the wanted ones of completions. Of a greedy request, each stands for all.
func pick(all []completion.Result, k Keys, generations []int) (picked []completion.Result) {
	for _, g := range generations {
		i := slices.IndexFunc(all, func(r completion.Result) bool { return k.Greedy || r.Generation == g })
		if i >= 0 {
			r := all[i]
			r.Generation = g
			picked = append(picked, r)
		}
	}
	return picked
}

// keysOf returns the keys of a part.
func (o *Output) keysOf(p *knownPart) (*partKeys, error) {
	o.loaded = slices.DeleteFunc(o.loaded, func(l *knownPart) bool { return l == p })
	if p.keys == nil {
		keys, err := o.place.read(p.number)
		if err != nil || keys == nil {
			return nil, cmp.Or(err, errKeys)
		}
		p.keys = keys
	}
	if len(o.loaded) == keysLoaded {
		o.loaded[0].keys = nil
		o.loaded = slices.Delete(o.loaded, 0, 1)
	}
	o.loaded = append(o.loaded, p)
	return p.keys, nil
}

// read reads the completions of an entry. There are none if they are not what was noted.
func (o *Output) read(ctx context.Context, p *knownPart, keys *partKeys, e entry) []completion.Result {
	c, err := o.cursorAt(ctx, keys, int64(e.position))
	var results []completion.Result
	if err == nil {
		results, err = c.read(int64(e.position), int(e.count))
	}
	if err == nil && contentDigest(results, keys.Excluded) != e.content {
		err = errors.New("they are not what was noted when the part was written")
	}
	if err == nil {
		return results
	}
	if c != nil {
		c.failed = true
	}
	if ctx.Err() == nil {
		if o.damaged++; o.damaged == 1 {
			o.warn("warning: completions of part %d of %s, which could be copied, are generated: %v", p.number,
				o.Name(), err)
		}
	}
	return nil
}

// cursor reads the rows of a part one after another, and keeps those that it read last: rows that are equal are copied
// from the same one.
type cursor struct {
	part   int
	rows   func() (*promptset.Completion, error, bool)
	stop   func()
	next   int64 // position of the next row
	failed bool
	kept   []completion.Result // those before next
}

// keptRows is how many rows a cursor keeps.
const keptRows = 16

// cursorAt returns a cursor at a row or shortly before it.
func (o *Output) cursorAt(ctx context.Context, keys *partKeys, position int64) (*cursor, error) {
	near := func(c *cursor) bool {
		return c.part == keys.Part && !c.failed && position >= c.next-int64(len(c.kept)) &&
			position < c.next+skippedRows
	}
	if i := slices.IndexFunc(o.cursors, near); i >= 0 {
		c := o.cursors[i]
		o.cursors = append(slices.Delete(o.cursors, i, i+1), c)
		return c, nil
	}
	if o.out == nil {
		out, err := promptset.OpenOutput(folder.OpenToRead(ctx, o.place.fs, o.place.output))
		if err != nil {
			return nil, err
		}
		o.out = out
	}
	i := slices.IndexFunc(o.out.Parts, func(p folder.Part) bool {
		return p.Number == keys.Part && p.Format == keys.Format
	})
	if i < 0 {
		return nil, errors.New("the part is missing")
	}
	if len(o.cursors) == cursorsOpened {
		o.cursors[0].stop()
		o.cursors = slices.Delete(o.cursors, 0, 1)
	}
	c := &cursor{part: keys.Part, next: position}
	c.rows, c.stop = iter.Pull2(o.out.RowsFrom(ctx, o.out.Parts[i], position))
	o.cursors = append(o.cursors, c)
	return c, nil
}

// read returns the completions of count rows.
func (c *cursor) read(position int64, count int) ([]completion.Result, error) {
	for c.next < position+int64(count) {
		row, err, more := c.rows()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, errors.New("the part is too short")
		}
		c.kept = append(c.kept, row.Result)
		c.next++
		if len(c.kept) > 2*(keptRows+count) {
			c.kept = slices.Clone(c.kept[len(c.kept)-keptRows-count:])
		}
	}
	from := int(position - c.next + int64(len(c.kept)))
	return c.kept[from : from+count], nil
}

// Close ends reading.
func (o *Output) Close() {
	for _, c := range o.cursors {
		c.stop()
	}
	o.cursors = nil
}
