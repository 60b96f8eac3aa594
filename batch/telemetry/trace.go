package telemetry

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sync"
	"time"
)

// Trace writes what takes time to a file in the trace event format, which ui.perfetto.dev and chrome://tracing
// display. The file is one JSON array of events. They are written as they occur, with few of them in memory: after a
// kill the file lacks the closing bracket, which viewers accept. The methods may be called from several goroutines;
// on a nil Trace they do nothing.
type Trace struct {
	start   time.Time
	mu      sync.Mutex
	file    *os.File
	buffer  []byte // whole events
	begun   bool   // an event was written
	waiting bool   // a write of the buffer is scheduled
	tracks  map[track]int
	asyncs  int
	err     error
}

type track struct {
	process int
	name    string
}

// Events are written to the file when they reach so many bytes, or after so long.
const (
	traceBuffer = 64 << 10
	traceEvery  = time.Second
)

// NewTrace starts a trace in a file, which it replaces.
func NewTrace(path string) (*Trace, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	t := &Trace{start: time.Now(), file: f, tracks: map[track]int{}, buffer: []byte("[\n")}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.process(os.Getpid(), fmt.Sprintf("job, process %d", os.Getpid()), 0)
	t.flush()
	return t, nil
}

// replicaBase is larger than any process id of an operating system: at most 2^22 on Linux.
const replicaBase = 1 << 22

// replicaID returns the number of a replica in the role of a process. It differs between processes, so that traces of
// several can be merged.
func replicaID(replica int) int {
	return (1+replica)*replicaBase + os.Getpid()%replicaBase
}

// Replica returns the tracks of a replica, by its number from 0.
func (t *Trace) Replica(replica int) *Tracks {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := replicaID(replica)
	if _, known := t.tracks[track{id, ""}]; !known {
		t.process(id, fmt.Sprintf("replica %d of process %d", replica, os.Getpid()), 1+replica)
	}
	return &Tracks{t, id}
}

// Job returns the tracks of a process outside its replicas.
func (t *Trace) Job() *Tracks {
	if t == nil {
		return nil
	}
	return &Tracks{t, os.Getpid()}
}

// Tracks are the tracks of one process or replica.
type Tracks struct {
	trace   *Trace
	process int
}

// traceEvent is one event of the format. Times are in microseconds.
type traceEvent struct {
	Phase    string         `json:"ph"`
	Category string         `json:"cat,omitempty"`
	ID       int            `json:"id,omitempty"` // identifies what starts and ends together
	Name     string         `json:"name"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	At       *int64         `json:"ts,omitempty"`
	Duration *int64         `json:"dur,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// Span writes an interval on a track; args are alternating names and values. Spans of a track nest.
func (k *Tracks) Span(on, name string, begin, end time.Time, args ...any) {
	if k == nil {
		return
	}
	k.trace.mu.Lock()
	defer k.trace.mu.Unlock()
	from := k.trace.micros(begin)
	duration := max(0, k.trace.micros(end)-from)
	k.trace.write(traceEvent{Phase: "X", Name: name, Process: k.process, Thread: k.trace.thread(k.process, on),
		At: &from, Duration: &duration, Args: pairs(args)})
}

// Apart writes an interval that may overlap others.
func (k *Tracks) Apart(name string, begin, end time.Time, args ...any) {
	if k == nil {
		return
	}
	k.trace.mu.Lock()
	defer k.trace.mu.Unlock()
	k.trace.asyncs++
	from := k.trace.micros(begin)
	until := max(from, k.trace.micros(end))
	e := traceEvent{Phase: "b", Category: "job", ID: k.trace.asyncs, Name: name, Process: k.process, At: &from,
		Args: pairs(args)}
	k.trace.write(e)
	e.Phase, e.At, e.Args = "e", &until, nil
	k.trace.write(e)
}

// Counter writes the values of a counter's series, as alternating names and values.
func (k *Tracks) Counter(name string, when time.Time, series ...any) {
	if k == nil {
		return
	}
	k.trace.mu.Lock()
	defer k.trace.mu.Unlock()
	time := k.trace.micros(when)
	k.trace.write(traceEvent{Phase: "C", Name: name, Process: k.process, At: &time, Args: pairs(series)})
}

// Begin starts a span; the function that it returns ends it.
func (k *Tracks) Begin(on, name string) (end func(args ...any)) {
	if k == nil {
		return func(...any) {}
	}
	begin := time.Now()
	return func(args ...any) { k.Span(on, name, begin, time.Now(), args...) }
}

// micros returns a time in whole microseconds, by the monotonic clock. Whole numbers keep nested spans nested in the
// file, because viewers round fractions in different ways.
func (t *Trace) micros(when time.Time) int64 { return t.start.Add(when.Sub(t.start)).UnixMicro() }

func pairs(args []any) map[string]any {
	if len(args) == 0 {
		return nil
	}
	all := map[string]any{}
	for i := 0; i+1 < len(args); i += 2 {
		value := args[i+1]
		if f, ok := value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			value = fmt.Sprint(f)
		}
		all[fmt.Sprint(args[i])] = value
	}
	return all
}

// process names a process, and sets its position in the display.
func (t *Trace) process(id int, name string, place int) {
	t.tracks[track{id, ""}] = 0
	t.write(traceEvent{Phase: "M", Name: "process_name", Process: id, Args: map[string]any{"name": name}})
	t.write(traceEvent{Phase: "M", Name: "process_sort_index", Process: id, Args: map[string]any{"sort_index": place}})
}

// thread returns the number of a track, which is named on first use.
func (t *Trace) thread(process int, name string) int {
	key := track{process, name}
	id, known := t.tracks[key]
	if !known {
		id = len(t.tracks)
		t.tracks[key] = id
		t.write(traceEvent{Phase: "M", Name: "thread_name", Process: process, Thread: id,
			Args: map[string]any{"name": name}})
	}
	return id
}

// write writes an event. After an error it writes nothing more: the job continues without its trace.
func (t *Trace) write(e traceEvent) {
	text, err := json.Marshal(e)
	if err != nil || t.err != nil || t.file == nil {
		t.err = firstError(t.err, err)
		return
	}
	if t.begun {
		t.buffer = append(t.buffer, ",\n"...)
	}
	t.begun = true
	t.buffer = append(t.buffer, text...)
	switch {
	case len(t.buffer) >= traceBuffer:
		t.flush()
	case !t.waiting:
		t.waiting = true
		time.AfterFunc(traceEvery, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.waiting = false
			if t.file != nil {
				t.flush()
			}
		})
	}
}

func (t *Trace) flush() {
	_, err := t.file.Write(t.buffer)
	t.err, t.buffer = firstError(t.err, err), t.buffer[:0]
}

func firstError(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

// Close ends the trace. It returns the first error of writing.
func (t *Trace) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.buffer = append(t.buffer, "\n]\n"...)
		t.flush()
	}
	t.err = firstError(t.err, t.file.Close())
	t.file = nil
	return t.err
}
