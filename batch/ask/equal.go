package ask

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"sync"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/visible"
)

// maxDistinctRows bounds the rows that later ones are compared with, to about 30 MB of hashes and places. In a larger
// job the rows that come after so many distinct ones are compared with these alone.
const maxDistinctRows = 1 << 20

// EqualRows finds rows whose completions must be equal, which their author hardly wanted: several completions at
// temperature 0, and rows that repeat another row. It warns once, about the first such row, and counts the rows for the
// report. It lasts for a process, through restarts of the engine.
type EqualRows struct {
	stderr io.Writer

	mu       sync.Mutex
	seed     maphash.Seed
	first    map[uint64]rowPlace // rows by the hash of their requests
	files    []rowFile
	scratch  []byte
	greedy   int64 // rows with several completions at temperature 0
	repeated int64 // rows that repeat another one
}

// rowPlace is the position of a row: the number of its file among the files seen, and its line there, or its number in
// a Parquet file.
type rowPlace struct{ file, number uint32 }

// rowFile is a file of rows; rows of JSONL files are named by their lines.
type rowFile struct {
	name  string
	lines bool
}

func newEqualRows(stderr io.Writer) *EqualRows {
	return &EqualRows{stderr: stderr, seed: maphash.MakeSeed(), first: map[uint64]rowPlace{}}
}

// Look takes a row with its request.
func (e *EqualRows) Look(row *promptset.Row, r *engine.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.N > 1 && r.Sampling.Greedy() {
		if e.greedy++; e.greedy == 1 {
			what := row.Error(fmt.Sprintf("(id %s) n is %d at temperature 0", visible.Quoted(row.ID), r.N))
			fmt.Fprintf(e.stderr, "warning: %v: all completions of such a row are equal; "+
				"give n 1, or a temperature above 0\n", what)
		}
	}
	if !row.HasID() { // its id is its number, which no other row has
		return
	}
	key, place := e.hash(r), e.place(row)
	first, known := e.first[key]
	switch {
	case known && first == place: // started again
	case known:
		if e.repeated++; e.repeated == 1 {
			f, unit := e.files[first.file], "row"
			if f.lines {
				unit = "line"
			}
			what := row.Error(fmt.Sprintf("(id %s) the id, prompt and parameters are those of %s %s %d",
				visible.Quoted(row.ID), f.name, unit, first.number))
			fmt.Fprintf(e.stderr, "warning: %v; both have the same completions: "+
				"give each row an id of its own, or none\n", what)
		}
	case len(e.first) < maxDistinctRows:
		e.first[key] = place
	}
}

// place numbers the file of a row. Rows come file by file, so that the last one is looked at first.
func (e *EqualRows) place(row *promptset.Row) rowPlace {
	file, number := rowFile{row.File, row.Line > 0}, row.FileRow
	if file.lines {
		number = row.Line
	}
	i := len(e.files) - 1
	for i >= 0 && e.files[i] != file {
		i--
	}
	if i < 0 {
		i, e.files = len(e.files), append(e.files, file)
	}
	return rowPlace{uint32(i), uint32(number)}
}

// hash returns a hash of everything that a request's completions depend on.
func (e *EqualRows) hash(r *engine.Request) uint64 {
	b := e.scratch[:0]
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(r.ID)
	text(r.Adapter)
	for _, n := range []uint64{
		uint64(r.N), uint64(r.FirstGeneration), uint64(r.MaxTokens), maphash.Comparable(e.seed, r.Sampling),
	} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Stop)))
	for _, s := range r.Stop {
		text(s)
	}
	b = fmt.Append(b, r.IgnoreEOS, r.IncludeStop, r.KeepSpecialTokens, r.LogitBias, r.StopTokens, r.Structure,
		r.AllowedTokens, r.BadWords, r.Thinking)
	b = fmt.Appendf(b, "%q", r.DRYSequenceBreakers)
	for _, id := range r.Tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	e.scratch = b
	return maphash.Bytes(e.seed, b)
}

// Counts returns how many rows have several completions at temperature 0, and how many repeat another one.
func (e *EqualRows) Counts() (greedy, repeated int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.greedy, e.repeated
}
