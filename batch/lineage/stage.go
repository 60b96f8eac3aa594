package lineage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/vfs"
)

// folder returns the folder for a process' parents, below the folder of its journal.
const folder = "parents"

// Stage describes which rows come first, and keeps what others need of rows. R is a row that was started. Parents are
// kept in a journal of their own, since their part may be published, or a later one, before the last of their children
// is started. Without that journal they are made again from the published parts.
type Stage[R any] struct {
	*Graph
	missing func(row int64) bool // in a part that is not published
	journal *journal.Journal

	mu      sync.Mutex
	kept    map[int64]journal.Position // rows that are finished
	failed  map[int64]bool             // rows that could not be run, by this process
	early   map[int64]int              // kept rows that were generated before their place: how many completions
	running map[int64]*running[R]      // rows that are started and that others continue
	ready   []R                        // rows that can continue, in the order in which their parents ended
	waiting int                        // rows that can't yet
}

// running is a row that is started, and the rows that wait for it.
type running[R any] struct {
	row      R
	children []R
}

// Open opens what is kept below the folder of a journal. missing reports whether a row is in a part that is not
// published. Damage is reported to w.
func Open[R any](files vfs.FS, dir string, key journal.Key, options journal.Options, g *Graph,
	missing func(row int64) bool, w io.Writer) (*Stage[R], error) {
	s := newStage[R](g, missing)
	var damages []journal.Damage
	var err error
	s.journal, damages, err = journal.Open(files, filepath.Join(dir, folder), key, options,
		func(row int64, _ []byte, position journal.Position) error {
			if row < g.Rows() {
				s.kept[row] = position
			}
			return nil
		})
	for _, damage := range damages {
		fmt.Fprintf(w, "warning: %s; the rows in them that others go on from are read again\n", damage)
	}
	return s, err
}

func newStage[R any](g *Graph, missing func(row int64) bool) *Stage[R] {
	return &Stage[R]{Graph: g, missing: missing, kept: map[int64]journal.Position{}, failed: map[int64]bool{},
		early: map[int64]int{}, running: map[int64]*running[R]{}}
}

// Close closes the journal.
func (s *Stage[R]) Close() error {
	if s.journal == nil { // it could not be opened
		return nil
	}
	return s.journal.Close()
}

// Clear removes what is kept below the folder of a journal.
func Clear(files vfs.FS, dir string) error {
	err := journal.Clear(files, filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// settled reports whether what others need of a row is known, now or from the published parts. The caller holds the
// lock.
func (s *Stage[R]) settled(row int64) bool {
	_, kept := s.kept[row]
	return kept || s.failed[row]
}

// Before lists the rows that must be started before a row, the first one last: its ancestors which stand after it, or
// whose part was removed.
func (s *Stage[R]) Before(row int64) (line []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := s.Of(row); next >= 0 && !s.settled(next) && s.running[next] == nil; next = s.Of(next) {
		if s.missing(next) {
			line = append(line, next)
		}
	}
	return line
}

// Begin notes that a row is started.
func (s *Stage[R]) Begin(index int64, row R) {
	if !s.IsNamed(index) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[index] = &running[R]{row: row}
	delete(s.early, index)
}

// Wait lets a row wait for the nearest of its ancestors that is under way, if there is one.
func (s *Stage[R]) Wait(index int64, row R) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ancestor := s.Of(index); ancestor >= 0 && !s.settled(ancestor); ancestor = s.Of(ancestor) {
		if running := s.running[ancestor]; running != nil {
			running.children = append(running.children, row)
			s.waiting++
			return true
		}
	}
	return false
}

// Ready reports whether a row can continue whose parent has ended.
func (s *Stage[R]) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ready) > 0
}

// Waiting reports whether rows wait for their parents, or could continue.
func (s *Stage[R]) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}

// Next takes a row whose parent has ended; ok is false if there is none.
func (s *Stage[R]) Next() (row R, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		return row, false
	}
	var none R
	row, s.ready[0], s.ready = s.ready[0], none, s.ready[1:]
	s.waiting--
	return row, true
}

// Finish keeps what others need of a row that is finished, and lets those continue that wait for it. Of an early row,
// which is not written before its place, all results are kept, and how many of them this process generated.
func (s *Stage[R]) Finish(index int64, p *Parent, early bool, generated int) error {
	if !s.IsNamed(index) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Failed() {
		s.failed[index] = true
	} else if _, kept := s.kept[index]; early || !kept {
		if !early {
			p = p.stripped()
		}
		if err := s.keep(index, p); err != nil {
			return err
		}
		if early {
			s.early[index] = generated
		}
	}
	if running := s.running[index]; running != nil {
		s.ready = append(s.ready, running.children...)
		delete(s.running, index)
	}
	return nil
}

// keep puts a parent into the journal. The caller holds the lock.
func (s *Stage[R]) keep(index int64, p *Parent) error {
	position, err := s.journal.Put(index, appendParent(nil, p))
	if err == nil {
		s.kept[index] = position
	}
	return err
}

// Running returns a row that is started and that others continue.
func (s *Stage[R]) Running(index int64) (row R, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if running := s.running[index]; running != nil {
		return running.row, true
	}
	return row, false
}

// Early returns the results of a row that was finished before its place, and how many of them this process generated;
// nil if it was not, or was started at its place since.
func (s *Stage[R]) Early(index int64) (results []completion.Result, generated int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	generated, early := s.early[index]
	if !early {
		return nil, 0, nil
	}
	p, err := s.read(index)
	if err != nil {
		return nil, 0, err
	}
	return p.Results, generated, nil
}

// read returns what is kept of a row. The caller holds the lock.
func (s *Stage[R]) read(index int64) (*Parent, error) {
	b, err := s.journal.Read(s.kept[index])
	if err != nil {
		return nil, err
	}
	return parseParent(b)
}

// Known returns what is known of a row without the published parts; nil is nothing.
func (s *Stage[R]) Known(index int64) (*Parent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[index] {
		return &Parent{Results: []completion.Result{{Err: "failed"}}}, nil
	}
	if _, kept := s.kept[index]; !kept {
		return nil, nil
	}
	return s.read(index)
}

// Keep keeps what was made again of a row.
func (s *Stage[R]) Keep(index int64, p *Parent) error {
	if p.Failed() { // it costs little to find the error again
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(index, p.stripped())
}

// Find returns what the children of a row need of it. The row is not running. If neither the row nor its ancestors are
// known, published makes it from the published parts; published gets the parent of that row.
func (s *Stage[R]) Find(index int64, published func(row int64, parent *Parent) (*Parent, error)) (*Parent, error) {
	p, err := s.Known(index)
	if p != nil || err != nil {
		return p, err
	}
	// It is in a published part, and so are those before it, up to one that is known.
	line := []int64{index}
	for {
		parent := s.Of(line[len(line)-1])
		if parent < 0 {
			break
		}
		if p, err = s.Known(parent); err != nil {
			return nil, err
		}
		if p != nil {
			break
		}
		line = append(line, parent)
	}
	for _, ancestor := range slices.Backward(line) {
		if p, err = published(ancestor, p); err != nil {
			return nil, err
		}
		if err := s.Keep(ancestor, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}
