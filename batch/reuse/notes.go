package reuse

import (
	"context"
	"slices"
	"sync"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Notes gathers the keys of rows, and writes those of a part when it is complete. Its methods may be called from
// several goroutines.
type Notes struct {
	place  keysPlace
	parts  folder.Parts
	header header

	mu    sync.Mutex
	named map[int64][]Named  // of rows that are not finished
	notes map[int]*partNotes // of parts that are not written
}

// partNotes are the keys of a part's finished rows. A job has few parts under way and many rows, so rows have no
// objects of their own.
type partNotes struct {
	rows    []uint32 // completions of each row of the job in the part; 0 before the row is finished
	entries []noted
}

// noted is an entry whose position counts from the first completion of its row.
type noted struct {
	row uint32 // within the part
	entry
}

// Writing is what is known of an output that is being written.
type Writing struct {
	FS       vfs.FS
	Output   string
	Format   string
	Parts    folder.Parts
	Basis    Basis
	Excluded []string // columns that it leaves out
	Sources  []string // places that completions are copied from
	Store    string   // the one of them that is a store
}

// NewNotes returns notes on the parts of an output. They are nil for a format whose parts do not have all of a
// completion; nothing is noted then.
func NewNotes(ctx context.Context, w Writing) *Notes {
	if w.Format == folder.OpenAI {
		return nil
	}
	var excluded []string
	for _, c := range w.Excluded {
		if slices.Contains(completion.Excludable(), c) {
			excluded = append(excluded, c)
		}
	}
	var sources []string
	for _, place := range w.Sources {
		sources = append(sources, storage.Redact(place))
	}
	return &Notes{place: keysPlace{context.WithoutCancel(ctx), w.FS, w.Output}, parts: w.Parts,
		header: header{Format: w.Format, Basis: w.Basis, Excluded: excluded, Sources: sources,
			Store: storage.Redact(w.Store)},
		named: map[int64][]Named{}, notes: map[int]*partNotes{}}
}

// Name notes the names of a row's completions, before they exist.
func (n *Notes) Name(row int64, named []Named) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.named[row] = named
}

// Finish notes the completions of a row, as the part will have them, in order. source is the number of the source of
// those that were copied.
func (n *Notes) Finish(row int64, results []completion.Result, origin, source uint8) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	part := n.parts.Of(row)
	from, to := n.parts.Range(part)
	keys := n.notes[part]
	if keys == nil {
		keys = &partNotes{rows: make([]uint32, to-from)}
		n.notes[part] = keys
	}
	within := uint32(row - from)
	keys.rows[within] = uint32(max(1, len(results)))
	for _, named := range n.named[row] {
		own := completionsOf(&named, results)
		if own == nil {
			continue
		}
		first := slices.IndexFunc(results, func(r completion.Result) bool { return r.Generation == own[0].Generation })
		keys.entries = append(keys.entries, noted{within, entry{key: named.Key,
			content: contentDigest(own, n.header.Excluded), id: named.ID, prompt: named.Prompt,
			parameters: named.Parameters, position: uint32(first), first: uint32(own[0].Generation),
			count: uint32(len(own)), extras: n.header.number(named.Extras), origin: origin, source: source}})
	}
	delete(n.named, row)
}

// completionsOf returns the completions of a request among those of its row, which are in order; nil if some have
// errors, or are missing in between.
func completionsOf(named *Named, results []completion.Result) []completion.Result {
	from := slices.IndexFunc(results, func(r completion.Result) bool { return named.Has(r.Generation) })
	if from < 0 {
		return nil
	}
	own := results[from:]
	if end := slices.IndexFunc(own, func(r completion.Result) bool { return !named.Has(r.Generation) }); end >= 0 {
		own = own[:end]
	}
	if slices.ContainsFunc(own, func(r completion.Result) bool { return r.Err != "" }) ||
		own[len(own)-1].Generation-own[0].Generation+1 != len(own) {
		return nil
	}
	return own
}

// Write writes the keys of a part whose rows are all finished.
func (n *Notes) Write(part int) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.header
	h.Part = part
	entries := n.notes[part].all()
	delete(n.notes, part)
	b, err := encode(h, entries)
	if err != nil {
		return err
	}
	return n.place.write(part, b)
}

// all returns the entries of a part whose rows are all finished, with their positions in the part; none if a row is
// missing, without whose length the rows after it have no position.
func (p *partNotes) all() []entry {
	if p == nil || slices.Contains(p.rows, 0) {
		return nil
	}
	starts, next := make([]uint32, len(p.rows)), uint32(0)
	for i, count := range p.rows {
		starts[i], next = next, next+count
	}
	entries := make([]entry, len(p.entries))
	for i, e := range p.entries {
		e.position += starts[e.row]
		entries[i] = e.entry
	}
	return entries
}
