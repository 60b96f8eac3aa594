package tools

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/vfs"
)

// folder is the folder of a process' log, below the folder of its journal.
const folder = "tools"

// State is how far a call came, as the log has it.
type State uint8

// The states of a call.
const (
	NotMade  State = iota
	UnderWay       // started, and nothing is known of its end
	Finished
)

// Log keeps turns that call tools, and their calls, in a journal of its own. A nil Log keeps nothing. Its methods may
// be called from several goroutines.
//
// The records of a completion are, in order: a turn, then for each of its calls that it was started and what it
// answered, then the next turn. A turn with number 0 starts the completion over. One that ended by a failure of its
// calls has a record of that.
type Log struct {
	journal *journal.Journal

	mu    sync.Mutex
	saved map[int64][]journal.Position // what earlier processes left, by row
}

// Kinds of records.
const (
	turnRecord byte = 1 + iota
	startedRecord
	finishedRecord
	failedRecord
)

// OpenLog opens the log below the folder of a journal. Damage is reported to w.
func OpenLog(files vfs.FS, dir string, key journal.Key, options journal.Options, w io.Writer) (*Log, error) {
	l := &Log{saved: map[int64][]journal.Position{}}
	var damages []journal.Damage
	var err error
	l.journal, damages, err = journal.Open(files, filepath.Join(dir, folder), key, options,
		func(row int64, _ []byte, position journal.Position) error {
			l.saved[row] = append(l.saved[row], position)
			return nil
		})
	for _, damage := range damages {
		if !damage.Torn { // what the end of a process tears off was not called yet
			fmt.Fprintf(w, "warning: %s; calls of tools in them may be made again\n", damage)
		}
	}
	return l, err
}

// ClearLog removes what is kept below the folder of a journal.
func ClearLog(files vfs.FS, dir string) error {
	err := journal.Clear(files, filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// HasLog reports whether there is a log below the folder of a journal, with calls of rows that are not published.
func HasLog(files vfs.FS, dir string) (bool, error) {
	names, err := files.List(filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(names) > 0, err
}

// Close closes the log, which stays on disk.
func (l *Log) Close() error {
	if l == nil || l.journal == nil {
		return nil
	}
	return l.journal.Close()
}

// Drop forgets the rows before one, which are published.
func (l *Log) Drop(below int64) error {
	if l == nil {
		return nil
	}
	return l.journal.Drop(below)
}

// put appends a record.
func (l *Log) put(p Place, kind byte, rest ...byte) error {
	if l == nil {
		return nil
	}
	b := []byte{kind}
	for _, n := range []int{p.Generation, p.Turn, p.Number} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return l.journal.Append(p.Row, append(b, rest...))
}

// Turn keeps a turn that calls tools.
func (l *Log) Turn(p Place, r *completion.Result) error {
	if l == nil {
		return nil
	}
	b, err := r.AppendBinary(nil)
	if err != nil {
		return err
	}
	return l.put(p, turnRecord, b...)
}

// Failed keeps that a completion ended by a failure of its calls. It is started over if its row is tried again.
func (l *Log) Failed(p Place) error { return l.put(p, failedRecord) }

// started keeps that a call is made now. If that must survive a loss of power, it is on disk afterwards.
func (l *Log) started(c *Call, durable bool) error {
	if err := l.put(c.Place, startedRecord); err != nil || l == nil || !durable {
		return err
	}
	return l.journal.Sync()
}

// finished keeps the answer to a call.
func (l *Log) finished(c *Call, a *Answer) error {
	how := byte(0)
	if a.Failed {
		how = 1
	}
	return l.put(c.Place, finishedRecord, append([]byte{how}, a.Content...)...)
}

// Turn is a turn that calls tools, with what became of its calls. Calls without an entry were not made.
type Turn struct {
	Result  completion.Result
	Started map[int]bool
	Answers map[int]Answer
}

// StateOf returns how far a call of the turn came.
func (t *Turn) StateOf(number int) State {
	switch _, finished := t.Answers[number]; {
	case finished:
		return Finished
	case t.Started[number]:
		return UnderWay
	}
	return NotMade
}

// History is what the log has of a completion.
type History struct {
	Turns  []Turn
	Failed bool // it ended by a failure of its calls
}

// HistoryOf returns what earlier processes left of a completion.
func (l *Log) HistoryOf(row int64, generation int) (h History, err error) {
	if l == nil {
		return h, nil
	}
	l.mu.Lock()
	positions := l.saved[row]
	l.mu.Unlock()
	for _, position := range positions {
		b, err := l.journal.Read(position)
		if err != nil {
			return h, err
		}
		if err := h.add(b, generation); err != nil {
			return h, fmt.Errorf("the log of the calls of row %d: %w", row, err)
		}
	}
	return h, nil
}

// errLogBytes reports that bytes are no record.
var errLogBytes = errors.New("these bytes are no record of a call")

// add adds a record, unless it is of another generation.
func (h *History) add(b []byte, generation int) error {
	if len(b) == 0 {
		return errLogBytes
	}
	kind, r := b[0], bytes.NewReader(b[1:])
	var numbers [3]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = binary.ReadUvarint(r); err != nil {
			return errLogBytes
		}
	}
	if numbers[0] != uint64(generation) {
		return nil
	}
	rest := b[len(b)-r.Len():]
	if kind == turnRecord && numbers[1] == 0 {
		*h = History{}
	}
	if next := uint64(len(h.Turns)); kind == turnRecord && numbers[1] == next {
		t := Turn{Started: map[int]bool{}, Answers: map[int]Answer{}}
		h.Turns = append(h.Turns, t)
		return h.Turns[next].Result.UnmarshalBinary(rest)
	} else if numbers[1] >= next {
		return errLogBytes
	}
	t := &h.Turns[numbers[1]]
	switch kind {
	case startedRecord:
		t.Started[int(numbers[2])] = true
	case finishedRecord:
		if len(rest) == 0 {
			return errLogBytes
		}
		t.Answers[int(numbers[2])] = Answer{Content: string(rest[1:]), Failed: rest[0] != 0}
	case failedRecord:
		h.Failed = true
	default:
		return errLogBytes
	}
	return nil
}
