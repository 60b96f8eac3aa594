package resume

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// records are what the job's processes keep, beside the parts, of what is not published.
type records struct {
	Journal *journal.Journal
	Entries []entry    // what the journal has of earlier processes, by row and generation
	Parents io.Closer  // rows that others continue; nil if there are none
	Calls   *tools.Log // nil if completions call no tools
	// Versions are of the completions that are under way, if the job's weights may change.
	Versions *versions.Log
}

// Journaled returns the completions that the journal has of a row.
func (r *records) Journaled(row int64) ([]completion.Result, error) {
	i := sort.Search(len(r.Entries), func(i int) bool { return r.Entries[i].Row >= row })
	var results []completion.Result
	for ; i < len(r.Entries) && r.Entries[i].Row == row; i++ {
		b, err := r.Journal.Read(r.Entries[i].position)
		if err != nil {
			return nil, err
		}
		var c completion.Result
		if err := c.UnmarshalBinary(b); err != nil {
			return nil, fmt.Errorf("the journal's completion of row %d: %w", row, err)
		}
		// The journal keeps the text of an error, and no status.
		if strings.Contains(c.Err, engine.ErrNotANumber.Error()) {
			c.ErrStatus = http.StatusInternalServerError
		}
		results = append(results, c)
	}
	return results, nil
}

// Add adds a completion that was put into the journal to those that an earlier process had put there.
func (r *records) Add(row int64, generation int, position journal.Position) {
	i, _ := slices.BinarySearchFunc(r.Entries, entry{Row: row, generation: generation}, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.generation, b.generation))
	})
	r.Entries = slices.Insert(r.Entries, i, entry{row, generation, position})
}

// CountJournaled returns how many rows the journal has completions of, and how many those are.
func (r *records) CountJournaled() (rows, completions int) {
	for i, e := range r.Entries {
		if i == 0 || e.Row != r.Entries[i-1].Row {
			rows++
		}
	}
	return rows, len(r.Entries)
}
