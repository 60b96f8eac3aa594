package batch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sort"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
)

// What a row has in [lineage] that goes on from no other.
const (
	noParent        int64 = -1 - iota
	parentMissing         // no row has the id that it names
	parentAmbiguous       // several have
	parentCycle           // it would go on from itself
	parentSeveral         // the row has several prompts
)

// lineage says which row of a job each row goes on from. It takes 8 bytes a row, and while it is made about 40 more.
type lineage struct {
	parents []int64  // by row
	named   []uint64 // a bit for each row: others go on from it
}

// name is an id, by which rows find one another. Two ids never have the same.
type name [16]byte

func nameOf(id string) name {
	sum := sha256.Sum256([]byte(id))
	return name(sum[:16])
}

// namedRow is a row by its own id, or by the one that it goes on from.
type namedRow struct {
	name name
	row  int64
}

// readLineage reads the ids of all rows, and which ones they go on from. It returns nil where none goes on from
// another.
func readLineage(ctx context.Context, r *promptset.Reader, rows int64) (*lineage, error) {
	if !r.HasParents() {
		return nil, nil
	}
	reader := r.Beside()
	var given, numbered []namedRow // by ids that they give, and by their numbers
	var children []namedRow
	several := map[int64]bool{}
	for row := range reader.Range(ctx, 0, rows) {
		if of := (namedRow{nameOf(row.ID), row.Index}); row.HasID() {
			given = append(given, of)
		} else {
			numbered = append(numbered, of)
		}
		if len(row.More) > 0 {
			several[row.Index] = true
		}
		if row.Parent.ID != "" {
			children = append(children, namedRow{nameOf(row.Parent.ID), row.Index})
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if len(children) == 0 {
		return nil, nil
	}
	for _, ids := range [][]namedRow{given, numbered} {
		slices.SortFunc(ids, func(a, b namedRow) int { return bytes.Compare(a.name[:], b.name[:]) })
	}
	l := &lineage{parents: slices.Repeat([]int64{noParent}, int(rows))}
	for _, c := range children {
		l.parents[c.row] = find(given, c.name)
		if l.parents[c.row] == parentMissing { // no row gives that id, and one may have it as its number
			l.parents[c.row] = find(numbered, c.name)
		}
		if several[l.parents[c.row]] {
			l.parents[c.row] = parentSeveral
		}
	}
	l.cutCycles()
	l.named = make([]uint64, (rows+63)/64)
	for _, parent := range l.parents {
		if parent >= 0 {
			l.named[parent/64] |= 1 << (parent % 64)
		}
	}
	return l, nil
}

// find returns the row of that name, parentMissing or parentAmbiguous. Rows are sorted by name.
func find(rows []namedRow, n name) int64 {
	i := sort.Search(len(rows), func(i int) bool { return bytes.Compare(rows[i].name[:], n[:]) >= 0 })
	switch {
	case i == len(rows) || rows[i].name != n:
		return parentMissing
	case i+1 < len(rows) && rows[i+1].name == n:
		return parentAmbiguous
	}
	return rows[i].row
}

// cutCycles marks the rows that are their own ancestors. Those that only descend from one keep their parent, which has
// an error then.
func (l *lineage) cutCycles() {
	const onTheWay, seen = 1, 2
	state := make([]byte, len(l.parents))
	var line []int64
	for start := range l.parents {
		line = line[:0]
		row := int64(start)
		for row >= 0 && state[row] == 0 {
			state[row] = onTheWay
			line = append(line, row)
			row = l.parents[row]
		}
		if row >= 0 && state[row] == onTheWay {
			for _, r := range line[slices.Index(line, row):] {
				l.parents[r] = parentCycle
			}
		}
		for _, r := range line {
			state[r] = seen
		}
	}
}

// isNamed says whether others go on from a row.
func (l *lineage) isNamed(row int64) bool { return l.named[row/64]&(1<<(row%64)) != 0 }

// parent returns the row that a row goes on from, noParent, or what is wrong with the one that it names.
func (l *lineage) parent(row *promptset.Row) (int64, error) {
	switch parent := l.parents[row.Index]; parent {
	case parentMissing:
		return 0, fmt.Errorf("parent %s is the id of no row of this job; give the id of one, or leave parent out",
			visible.Quoted(row.Parent.ID))
	case parentAmbiguous:
		return 0, fmt.Errorf("parent %s is the id of several rows; give each of them an id of its own",
			visible.Quoted(row.Parent.ID))
	case parentSeveral:
		return 0, fmt.Errorf("parent %s has several prompts; give each a line of its own",
			visible.Quoted(row.Parent.ID))
	case parentCycle:
		return 0, fmt.Errorf("parent %s goes on from this row itself; leave out a parent of this circle",
			visible.Quoted(row.Parent.ID))
	default:
		return parent, nil
	}
}

// parentElsewhereError says that a row goes on from one that another process may draw.
type parentElsewhereError struct {
	row    *promptset.Row
	parent int64
	unit   string
}

func (e *parentElsewhereError) Error() string {
	return e.row.Error(fmt.Sprintf("(id %s) its parent %s, row %d of the job, is in another %s, and processes do not "+
		"wait for one another: run this job with one process, or give `part-rows` so that each row is in the part of "+
		"its parent", visible.Quoted(e.row.ID), visible.Quoted(e.row.Parent.ID), e.parent, e.unit)).Error()
}

// lineage is which row of the job each row goes on from; nil where none does.
func (o *Opened) lineage(ctx context.Context) (*lineage, error) {
	if o.kin != nil {
		return o.kin, nil
	}
	var err error
	o.kin, err = readLineage(ctx, o.reader, o.parts.Rows)
	return o.kin, err
}

// checkLineage refuses rows that go on from rows of other units than their own, for processes that do the units apart.
func (o *Opened) checkLineage(ctx context.Context, shard jobstate.Shard) error {
	l, err := o.lineage(ctx)
	if l == nil || err != nil {
		return err
	}
	unit, of := "part", func(row int64) int { return o.parts.Of(row) }
	if !shard.Whole() {
		unit, of = "shard", func(row int64) int { return o.parts.Of(row) % shard.Count }
	}
	for row, parent := range l.parents {
		if parent < 0 || of(int64(row)) == of(parent) {
			continue
		}
		reader := o.reader.Beside()
		for r := range reader.Range(ctx, int64(row), int64(row)+1) {
			return endWith(Misused, "%w", &parentElsewhereError{r, parent, unit})
		}
		return reader.Err()
	}
	return nil
}
