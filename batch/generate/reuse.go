package generate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
)

// reusing is how a unit finds completions that exist already. The goroutine that starts rows uses all but published.
type reusing struct {
	namer   *reuse.Namer
	sources []reuse.Source // the job's own output is the first
	own     *reuse.Output  // nil if nothing is kept
	store   *reuse.Store   // nil if there is none
	// amended reports that completions of earlier versions of parts may be of other model files than the job's are.
	amended   bool
	published []int // parts that own lacks; the collector's lock protects it
}

// openReuse opens what a unit copies completions from. It returns what notes the keys of the unit's parts.
func (u *Unit) openReuse(ctx context.Context, g *Generator, how *collecting) (n resume.Noting, err error) {
	saved, p := u.Saved, u.process
	job := saved.State.Job()
	w := reuse.Writing{FS: saved.FS, Output: saved.Job.Output, Format: saved.Job.Format, Parts: saved.Parts,
		Basis: reuse.BasisOf(job), Excluded: saved.Job.ExcludedColumns(), Sources: p.Reuse}
	r := &reusing{namer: reuse.NewNamer(w.Basis, g.Session.Plan().MaxModelLen, how.results.Columns,
		saved.Job.Forms()),
		amended: saved.Amended(), own: reuse.Own(ctx, w, p.Printf)}
	r.sources = append(r.sources, r.own)
	for _, place := range p.Reuse {
		source, err := reuse.OpenOutput(ctx, saved.FS, place, w.Basis, w.Excluded, p.Printf)
		if err != nil {
			return n, err
		}
		source.Tell(p)
		r.sources = append(r.sources, source)
	}
	if p.Store != "" {
		if !storage.IsRemote(p.Store) {
			if err := saved.FS.MkdirAll(p.Store); err != nil {
				return n, fmt.Errorf("cannot make the store: %w", err)
			}
		}
		w.Store = p.Store
		if r.store, err = reuse.OpenStore(ctx, p.Store, w.Basis, p.Printf); err != nil {
			return n, err
		}
		r.sources, w.Sources = append(r.sources, r.store), append(slices.Clone(w.Sources), p.Store)
		if len(w.Excluded) == 0 { // completions without some of their columns are of less use
			how.store = reuse.NewStoreWriter(ctx, p.Store, w.Basis)
		}
	}
	if len(saved.Missing) < saved.PartCount { // which most units of a queue are not
		if err := r.own.AddAll(func(part int) bool {
			return saved.Shard.Has(part) && !slices.Contains(saved.Missing, part)
		}); err != nil {
			return n, err
		}
	}
	if !saved.Job.Encodes() { // vectors and scores are never copied
		how.notes = reuse.NewNotes(ctx, w)
	}
	u.reuse = r
	return resume.Noting{Write: how.notes.Write, Published: func(part int) {
		// The writer publishes while the collector, which has the lock, adds a row.
		r.published = append(r.published, part)
		if u.Out != nil { // a job without rows has one part, which is written before all else
			u.Out.repeats.published(saved.Parts.Range(part))
		}
	}}, nil
}

// close ends reading.
func (r *reusing) close() {
	if r == nil {
		return
	}
	for _, s := range r.sources {
		s.Close()
	}
}

// from returns how completions of a source came to be, and the number of the place among the others than the job's own
// output.
func (r *reusing) from(source int) (origin, number uint8) {
	switch {
	case r.own == nil:
		return reuse.Copied, uint8(source)
	case source == 0:
		return reuse.Repeated, 0
	}
	return reuse.Copied, uint8(source - 1)
}

// name names the completions of a row, unless some come from an earlier version of their part and may be of another
// model.
func (u *Unit) name(p *pendingRow, old bool) {
	if old && u.reuse.amended {
		return
	}
	for _, request := range p.requests {
		form, own := u.Out.results.Naming(p.row, request)
		if c := u.Out.conversing; c != nil {
			form, own = form+c.Naming(u.builder, p.row), true
		}
		p.names = append(p.names, u.reuse.namer.Name(request, form, own))
	}
	u.Out.notes.Name(p.row.Index, p.names)
}

// fill gives a row the completions that exist: of equal rows, and of other outputs. Those of equal rows that are under
// way come with these. It returns the row if some are to be generated.
func (u *Unit) fill(ctx context.Context, p *pendingRow) (*pendingRow, error) {
	if p.judged != nil { // it may need less than all, and looks for what it asks for
		return u.Out.toGenerate(p), nil
	}
	for i := range p.names {
		k := &p.names[i]
		own := u.claim(p, k)
		left := own.missing
		for _, first := range own.there {
			if r, ok := u.repeated(first); ok {
				r.Generation = first.generation
				if err := u.Out.copy(p, &r, reuse.Repeated, 0); err != nil {
					return nil, err
				}
			} else { // its row was published meanwhile
				left = append(left, first.generation)
			}
		}
		// Not before: a part may be published after claim found a completion in the journal.
		if err := u.reuse.addPublished(&u.Out.mu); err != nil {
			return nil, err
		}
		for n, source := range u.reuse.sources {
			origin, number := u.reuse.from(n)
			if len(left) == 0 {
				break
			}
			for _, r := range source.Find(ctx, k.Keys, left) {
				if err := u.Out.copy(p, &r, origin, number); err != nil {
					return nil, err
				}
				left = slices.DeleteFunc(left, func(g int) bool { return g == r.Generation })
			}
		}
	}
	return u.Out.toGenerate(p), nil
}

// asks takes the generations that a row asks for next. Those that equal rows or other places have are judged; the
// others, which it returns, are to be generated.
func (u *Unit) asks(ctx context.Context, p *pendingRow) (left []int, err error) {
	asked := u.Out.asks(p)
	if len(p.names) == 0 {
		return asked, nil
	}
	for i := range p.names {
		k := &p.names[i]
		wanted := slices.DeleteFunc(slices.Clone(asked), func(g int) bool { return !k.Has(g) })
		own := u.Out.judgingOf(p).claim(k, wanted)
		for _, first := range own.there {
			if r, ok := u.repeated(first); ok {
				r.Generation = first.generation
				u.Out.judgeCopy(p, &r, k.Extras, reuse.Repeated, 0)
			} else { // its row was published meanwhile
				own.missing = append(own.missing, first.generation)
			}
		}
		if err := u.reuse.addPublished(&u.Out.mu); err != nil {
			return nil, err
		}
		for n, source := range u.reuse.sources {
			origin, number := u.reuse.from(n)
			for _, r := range source.Find(ctx, k.Keys, own.missing) {
				u.Out.judgeCopy(p, &r, k.Extras, origin, number)
				own.missing = slices.DeleteFunc(own.missing, func(g int) bool { return g == r.Generation })
			}
		}
		left = append(left, own.missing...)
	}
	slices.Sort(left)
	return left, nil
}

// claimed is what equal rows have of a request.
type claimed struct {
	there   []foundFirst
	missing []int // generations that are neither there nor under way
}

// foundFirst is a completion that a generation is equal to.
type foundFirst struct {
	*firstOf
	generation int
	bytes      []byte // the completion itself, in a stream
}

// addPublished adds the parts to own that were published since the last call. mu is the collector's lock.
func (r *reusing) addPublished(mu sync.Locker) error {
	mu.Lock()
	parts := r.published
	r.published = nil
	mu.Unlock()
	for _, part := range parts {
		if err := r.own.Add(part); err != nil {
			return err
		}
	}
	return nil
}

// claim looks for completions of equal rows.
func (u *Unit) claim(p *pendingRow, k *reuse.Named) (c claimed) {
	u.Out.mu.Lock()
	defer u.Out.mu.Unlock()
	var earlier []reuse.First
	for g := k.First; g < k.First+k.N; g++ {
		if p.has(g) {
			continue
		}
		first, waits := u.Out.repeats.claim(p, k, g)
		switch {
		case first == nil:
			c.missing = append(c.missing, g)
			continue
		case waits:
			if p.follows == nil {
				p.follows = map[int]bool{}
			}
			p.follows[g] = true
		default:
			c.there = append(c.there, foundFirst{first, g, u.Out.repeats.bytes[first]})
		}
		earlier = append(earlier, first.First)
	}
	u.Out.repeats.judge.Add(p.row, k, earlier)
	return c
}

// repeated reads a completion of an equal row that is in no published part.
func (u *Unit) repeated(first foundFirst) (r completion.Result, ok bool) {
	b := first.bytes
	switch {
	case first.restored:
		results, err := u.Saved.Journaled(first.Index)
		i := slices.IndexFunc(results, func(r completion.Result) bool {
			return r.Generation == first.firstOf.generation
		})
		if err != nil || i < 0 {
			return r, false
		}
		return results[i], true
	case b == nil:
		var err error
		if b, err = u.Saved.Journal.Read(first.at); err != nil {
			return r, false
		}
	}
	return r, r.UnmarshalBinary(b) == nil
}

// copy adds a completion to a row that was generated for another one, and to those that wait for it.
func (c *collector) copy(p *pendingRow, r *completion.Result, origin, source uint8) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := p.named(r.Generation)
	c.results.Dress(r, p.row, p.requestOf(r.Generation), k.Extras)
	if origin == reuse.Copied {
		p.source = source
	}
	return c.lead(p, r, origin)
}

// toGenerate returns a row if completions of it are to be generated.
func (c *collector) toGenerate(p *pendingRow) *pendingRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ended {
		return nil
	}
	if p.left == len(p.follows)-p.served() {
		p.idle = true
		c.idle++
		return nil
	}
	return p
}
