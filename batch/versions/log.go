// Package versions notes in the journal which weights generate the completions of a job that are under way, so that
// the process that continues the job generates them with the same.
package versions

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/quire/quire/engine"
)

// Note states that a version of the weights generates a completion from one of its tokens on, unless a later note of
// the completion states otherwise.
type Note struct {
	Generation, First int
	Version           string
	// Names are the checkpoints of the watched place that the version consists of, each over those before it and over
	// the job's model. None is the model itself.
	Names []string
}

// noteTag is the first byte of a note: completions in the same journal begin with smaller ones.
const noteTag = 40

// AppendBinary appends the note in a form that [Parse] reads.
func (n *Note) AppendBinary(b []byte) []byte {
	b = binary.AppendUvarint(append(b, noteTag), uint64(n.Generation))
	b = binary.AppendUvarint(b, uint64(n.First))
	for _, text := range append([]string{n.Version}, n.Names...) {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

// Parse reads a note; ok is false if a record of the journal is none.
func Parse(b []byte) (n Note, ok bool) {
	if len(b) == 0 || b[0] != noteTag {
		return n, false
	}
	b = b[1:]
	for _, to := range []*int{&n.Generation, &n.First} {
		value, size := binary.Uvarint(b)
		if size <= 0 || value > 1<<31 {
			return n, false
		}
		*to, b = int(value), b[size:]
	}
	var texts []string
	for len(b) > 0 {
		length, size := binary.Uvarint(b)
		if size <= 0 || length > uint64(len(b)-size) {
			return n, false
		}
		texts = append(texts, string(b[size:size+int(length)]))
		b = b[size+int(length):]
	}
	if len(texts) == 0 {
		return n, false
	}
	n.Version, n.Names = texts[0], texts[1:]
	return n, true
}

// UnderWay is a completion that has started and not ended, with the versions that generate it.
type UnderWay struct {
	Row        int64
	Generation int
	Runs       []engine.WeightsRun
}

// Log has the completions that are under way. Goroutines may use it together.
type Log struct {
	mu    sync.Mutex
	runs  map[completionKey][]engine.WeightsRun
	names map[string][]string // of each version that was noted
}

type completionKey struct {
	row        int64
	generation int
}

// NewLog makes a log without completions.
func NewLog() *Log {
	return &Log{runs: map[completionKey][]engine.WeightsRun{}, names: map[string][]string{}}
}

// Add takes a note of a completion of a row.
func (l *Log) Add(row int64, n Note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := completionKey{row, n.Generation}
	l.runs[key] = engine.WithRun(l.runs[key], n.First, n.Version)
	l.names[n.Version] = n.Names
}

// End notes that a completion has ended, or that it is to begin again as if it never had.
func (l *Log) End(row int64, generation int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, completionKey{row, generation})
}

// UnderWay returns the completions that are under way, in order.
func (l *Log) UnderWay() (all []UnderWay) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, runs := range l.runs {
		all = append(all, UnderWay{key.row, key.generation, slices.Clone(runs)})
	}
	slices.SortFunc(all, func(a, b UnderWay) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Generation, b.Generation))
	})
	return all
}

// Names returns what a version consists of, see [Note].
func (l *Log) Names(version string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[version]
}
