package reuse

import (
	"fmt"
	"io"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/internal/visible"
)

// Name names a completion: equal names mean equal bytes.
type Name struct {
	Key
	Generation int // 0 for all of a greedy request
}

// Of names a completion of the request.
func (n *Named) Of(generation int) Name {
	if n.Greedy {
		generation = 0
	}
	return Name{n.Key, generation}
}

// First is the row that has a completion first.
type First struct {
	Index int64
	ID    uint64 // digest of its id
	File  string
	Line  int64 // its line, or its number in a file without lines
}

// FirstIn is a row as a First.
func FirstIn(row *promptset.Row, named *Named) First {
	f := First{Index: row.Index, ID: named.ID, File: row.File, Line: row.FileRow}
	if row.Line > 0 {
		f.Line = row.Line
	}
	return f
}

// Judge counts rows whose completions must be equal, which their author hardly wanted, and warns about the first ones.
type Judge struct {
	Messages io.Writer
	Greedy   int64 // rows with several completions at temperature 0
	Repeated int64 // rows that have the id, prompt and parameters of an earlier one
}

// Add takes the next request. earlier are the rows that have its completions first.
func (j *Judge) Add(row *promptset.Row, named *Named, earlier []First) {
	if named.N > 1 && named.Greedy {
		if j.Greedy++; j.Greedy == 1 {
			what := row.Error(fmt.Sprintf("(id %s) n is %d at temperature 0", visible.Quoted(row.ID), named.N))
			fmt.Fprintf(j.Messages, "warning: %v: all completions of such a row are equal; "+
				"give n 1, or a temperature above 0\n", what)
		}
	}
	if !row.HasID() || len(earlier) < named.N { // without an id, it is the row's number, which no other row has
		return
	}
	for _, first := range earlier {
		if first.Index == row.Index || first.ID != named.ID {
			return
		}
	}
	if j.Repeated++; j.Repeated == 1 {
		unit := "row"
		if row.Line > 0 {
			unit = "line"
		}
		what := row.Error(fmt.Sprintf("(id %s) the id, prompt and parameters are those of %s %s %d",
			visible.Quoted(row.ID), earlier[0].File, unit, earlier[0].Line))
		fmt.Fprintf(j.Messages, "warning: %v; both have the same completions: "+
			"give each row an id of its own, or none\n", what)
	}
}

// maxDistinct bounds the completions that later ones are compared with, to about 100 MB. In a larger job the rows that
// come after so many distinct ones are compared with these alone.
const maxDistinct = 1 << 20

// Distinct counts the distinct completions among requests.
type Distinct struct {
	Judge
	first map[Name]First
}

// Add takes the next request, and returns the generations that no earlier one has.
func (d *Distinct) Add(row *promptset.Row, named *Named) (distinct []int) {
	if d.first == nil {
		d.first = map[Name]First{}
	}
	var earlier []First
	for g := named.First; g < named.First+named.N; g++ {
		name := named.Of(g)
		if first, known := d.first[name]; known {
			earlier = append(earlier, first)
			continue
		}
		distinct = append(distinct, g)
		if len(d.first) < maxDistinct {
			d.first[name] = FirstIn(row, named)
		}
	}
	d.Judge.Add(row, named, earlier)
	return distinct
}
