// Package lineage knows which rows of a job continue others, what a row needs of the one that it continues, and
// which row may be started when.
//
// A [Graph] has each row's parent, a [Parent] is the prompt and the completions of a row that others continue, and a
// [Stage] stands before what generates rows: it reports which rows come first, lets a row wait for its parent, and
// keeps parents in a journal of their own.
package lineage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sort"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/internal/visible"
)

// What [Graph.Of] returns for a row that continues no other.
const (
	None      int64 = -1 - iota
	missing         // no row has the id that it names
	Ambiguous       // several have
	cycle           // it would continue itself
	several         // the row has several prompts
)

// Graph describes which row of a job each row continues. It takes 8 bytes a row, and while it is made about 40 more.
type Graph struct {
	parents []int64  // by row
	named   []uint64 // a bit for each row: others continue it
}

// name is an id, by which rows find one another. Two ids never have the same.
type name [16]byte

func nameOf(id string) name {
	sum := sha256.Sum256([]byte(id))
	return name(sum[:16])
}

// namedRow is a row by its own id, or by the one that it continues.
type namedRow struct {
	name name
	row  int64
}

// Read reads the ids of all rows, and which ones they continue. It returns nil if none continues
// another.
func Read(ctx context.Context, r *promptset.Reader, rows int64) (*Graph, error) {
	if !r.HasParents() {
		return nil, nil
	}
	reader := r.Beside()
	var given, numbered []namedRow // by ids that they give, and by their numbers
	var children []namedRow
	withSeveral := map[int64]bool{}
	for row := range reader.Range(ctx, 0, rows) {
		if named := (namedRow{nameOf(row.ID), row.Index}); row.HasID() {
			given = append(given, named)
		} else {
			numbered = append(numbered, named)
		}
		if len(row.More) > 0 {
			withSeveral[row.Index] = true
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
	g := &Graph{parents: slices.Repeat([]int64{None}, int(rows))}
	for _, c := range children {
		g.parents[c.row] = find(given, c.name)
		if g.parents[c.row] == missing { // no row gives that id, and one may have it as its number
			g.parents[c.row] = find(numbered, c.name)
		}
		if withSeveral[g.parents[c.row]] {
			g.parents[c.row] = several
		}
	}
	g.cutCycles()
	g.named = make([]uint64, (rows+63)/64)
	for _, parent := range g.parents {
		if parent >= 0 {
			g.named[parent/64] |= 1 << (parent % 64)
		}
	}
	return g, nil
}

// find returns the row of that name, missing or Ambiguous. Rows are sorted by name.
func find(rows []namedRow, n name) int64 {
	i := sort.Search(len(rows), func(i int) bool { return bytes.Compare(rows[i].name[:], n[:]) >= 0 })
	switch {
	case i == len(rows) || rows[i].name != n:
		return missing
	case i+1 < len(rows) && rows[i+1].name == n:
		return Ambiguous
	}
	return rows[i].row
}

// cutCycles marks the rows that are their own ancestors. Those that only descend from one keep their parent, which has
// an error then.
func (g *Graph) cutCycles() {
	const onTheWay, seen = 1, 2
	state := make([]byte, len(g.parents))
	var line []int64
	for start := range g.parents {
		line = line[:0]
		row := int64(start)
		for row >= 0 && state[row] == 0 {
			state[row] = onTheWay
			line = append(line, row)
			row = g.parents[row]
		}
		if row >= 0 && state[row] == onTheWay {
			for _, r := range line[slices.Index(line, row):] {
				g.parents[r] = cycle
			}
		}
		for _, r := range line {
			state[r] = seen
		}
	}
}

// IsNamed reports whether others continue a row.
func (g *Graph) IsNamed(row int64) bool { return g.named[row/64]&(1<<(row%64)) != 0 }

// Of returns the row that a row continues, or a negative number: [None], or one for what is wrong with the id that
// the row names.
func (g *Graph) Of(row int64) int64 { return g.parents[row] }

// Rows is how many rows there are.
func (g *Graph) Rows() int64 { return int64(len(g.parents)) }

// Parent returns the row that a row continues, None, or what is wrong with the id that it names.
func (g *Graph) Parent(row *promptset.Row) (int64, error) {
	switch parent := g.parents[row.Index]; parent {
	case missing:
		return 0, fmt.Errorf("parent %s is the id of no row of this job; give the id of one, or leave parent out",
			visible.Quoted(row.Parent.ID))
	case Ambiguous:
		return 0, fmt.Errorf("parent %s is the id of several rows; give each of them an id of its own",
			visible.Quoted(row.Parent.ID))
	case several:
		return 0, fmt.Errorf("parent %s has several prompts; give each a line of its own",
			visible.Quoted(row.Parent.ID))
	case cycle:
		return 0, fmt.Errorf("parent %s continues this row itself; leave out a parent of this circle",
			visible.Quoted(row.Parent.ID))
	default:
		return parent, nil
	}
}
