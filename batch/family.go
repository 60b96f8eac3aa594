package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/quire/quire/journal"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/vfs"
)

// kinFolder is where a process keeps what rows need of those that they go on from, below the folder of its journal.
const kinFolder = "parents"

// family is what a unit knows of rows that go on from others. Rows that others go on from are kept in a journal of
// their own, since their part may be published, or a later one, before the last of these is begun. Without that
// journal they are made again from the published parts.
//
// The collector's lock guards what changes.
type family struct {
	*lineage
	missing func(row int64) bool // in a part that is not published
	journal *journal.Journal

	kept    map[int64]journal.Position // rows that are finished
	failed  map[int64]bool             // rows that could not be run, by this process
	early   map[int64]int              // kept rows that were drawn before their place: how many completions
	running map[int64]*pendingRow      // rows that are begun and that others go on from
	ready   []*pendingRow              // rows that can go on, in the order in which their parents ended
	waiting int                        // rows that can't yet
}

// openFamily opens what is kept; nil where no row goes on from another one.
func (s *savedJob) openFamily(l *lineage, w io.Writer) (*family, error) {
	if l == nil {
		return nil, nil
	}
	missing := map[int]bool{}
	for _, part := range s.missing {
		missing[part] = true
	}
	f := &family{lineage: l, missing: func(row int64) bool { return missing[s.parts.Of(row)] },
		kept: map[int64]journal.Position{}, failed: map[int64]bool{}, early: map[int64]int{},
		running: map[int64]*pendingRow{}}
	var damages []journal.Damage
	var err error
	f.journal, damages, err = journal.Open(s.fs, filepath.Join(s.state.Dir(), kinFolder), s.state.Key(),
		s.process.Timing.Journal, func(row int64, _ []byte, at journal.Position) error {
			if row < int64(len(l.parents)) {
				f.kept[row] = at
			}
			return nil
		})
	for _, damage := range damages {
		fmt.Fprintf(w, "warning: %s; the rows in them that others go on from are read again\n", damage)
	}
	s.kin = f.journal
	return f, err
}

// clearKin removes what is kept of rows that others go on from, below the folder of a journal.
func clearKin(files vfs.FS, dir string) error {
	err := journal.Clear(files, filepath.Join(dir, kinFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// settled says that what others need of a row is known, now or from the published parts.
func (f *family) settled(row int64) bool {
	_, kept := f.kept[row]
	return kept || f.failed[row]
}

// unbegun lists the rows that must be begun before a row, the first one last: its ancestors which stand behind it, or
// whose part was removed.
func (c *collector) unbegun(row int64) (line []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.family
	for at := f.parents[row]; at >= 0 && !f.settled(at) && f.running[at] == nil; at = f.parents[at] {
		if f.missing(at) {
			line = append(line, at)
		}
	}
	return line
}

// wait lets a row wait for the nearest of its ancestors that is under way, if there is one.
func (c *collector) wait(p *pendingRow) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.family
	for at := f.parents[p.row.Index]; at >= 0 && !f.settled(at); at = f.parents[at] {
		if of := f.running[at]; of != nil {
			of.children = append(of.children, p)
			p.waits = true
			f.waiting++
			return true
		}
	}
	return false
}

// goOn returns a row whose parent has ended. With patience it waits for one, and returns nil when none waits any more.
func (c *collector) goOn(ctx context.Context, patience bool) *pendingRow {
	if c.family == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeWith(ctx)()
	f := c.family
	for patience && len(f.ready) == 0 && f.waiting > 0 && ctx.Err() == nil && c.err == nil {
		c.room.Wait()
	}
	if len(f.ready) == 0 || ctx.Err() != nil || c.err != nil {
		return nil
	}
	p := f.ready[0]
	f.ready[0], f.ready = nil, f.ready[1:]
	p.waits = false
	f.waiting--
	return p
}

// settle keeps what others need of a row that is finished, and lets those go on that wait for it.
func (f *family) settle(p *pendingRow) error {
	row := p.row.Index
	if !f.isNamed(row) {
		return nil
	}
	k := &kin{results: p.results}
	if len(p.requests) > 0 {
		k.prompt = p.requests[0].Tokens
	}
	switch {
	case k.failed():
		f.failed[row] = true
	default:
		if !p.early {
			k = k.stripped()
		}
		if _, kept := f.kept[row]; kept && !p.early {
			break
		}
		at, err := f.journal.Put(row, appendKin(nil, k))
		if err != nil {
			return err
		}
		f.kept[row] = at
		if p.early {
			f.early[row] = p.drawn
		}
	}
	delete(f.running, row)
	f.ready = append(f.ready, p.children...)
	p.children = nil
	return nil
}

// takeEarly returns what was drawn of a row before its place, if it was: a row that is under way goes on as if it had
// been begun here, one that is finished has its completions here.
func (c *collector) takeEarly(row int64) (begun bool, done *kin, drawn int, err error) {
	if c.family == nil {
		return false, nil, 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.family
	if p := f.running[row]; p != nil && p.early {
		p.early = false
		return true, nil, 0, nil
	}
	drawn, early := f.early[row]
	if !early {
		return false, nil, 0, nil
	}
	done, err = f.read(row)
	if err == nil {
		delete(f.early, row)
	}
	return false, done, drawn, err
}

// read returns what is kept of a row.
func (f *family) read(row int64) (*kin, error) {
	b, err := f.journal.Read(f.kept[row])
	if err != nil {
		return nil, err
	}
	return parseKin(b)
}

// known returns what is known of a row without the published parts; nil is nothing.
func (c *collector) known(row int64) (*kin, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.family
	if f.failed[row] {
		return &kin{results: []promptset.Result{{Err: "failed"}}}, nil
	}
	if _, kept := f.kept[row]; !kept {
		return nil, nil
	}
	return f.read(row)
}

// keep keeps what was made again of a row.
func (c *collector) keep(row int64, k *kin) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.failed() { // which costs little to find again
		return nil
	}
	at, err := c.family.journal.Put(row, appendKin(nil, k.stripped()))
	if err == nil {
		c.family.kept[row] = at
	}
	return err
}

// kin returns what the children of a row need of it. The row is not under way.
func (u *unit) kin(ctx context.Context, row int64) (*kin, error) {
	k, err := u.out.known(row)
	if k != nil || err != nil {
		return k, err
	}
	// It is in a published part, and so are those before it, up to one that is known.
	line := []int64{row}
	for {
		parent := u.out.family.parents[line[len(line)-1]]
		if parent < 0 {
			break
		}
		if k, err = u.out.known(parent); err != nil {
			return nil, err
		}
		if k != nil {
			break
		}
		line = append(line, parent)
	}
	for _, at := range slices.Backward(line) {
		if k, err = u.published(ctx, at, k); err != nil {
			return nil, err
		}
		if err := u.out.keep(at, k); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// published makes what is known of a row from its published part, and of that which it goes on from.
func (u *unit) published(ctx context.Context, row int64, from *kin) (*kin, error) {
	results, err := u.results.read(ctx, row)
	if err != nil {
		return nil, err
	}
	k := &kin{results: results}
	if k.failed() {
		return k, nil
	}
	of, err := u.rowsAt.row(ctx, row)
	if err == nil {
		k.prompt, err = u.builder.prompt(of, from)
	}
	return k, err
}
