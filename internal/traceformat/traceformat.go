// Package traceformat parses traces in the trace event format and checks that they are well formed, for tests.
package traceformat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Event is one event. Times are whole microseconds, because viewers drop or round fractions.
type Event struct {
	Phase    string         `json:"ph"`
	Category string         `json:"cat"`
	ID       int            `json:"id"`
	Name     string         `json:"name"`
	Process  *int           `json:"pid"`
	Thread   int            `json:"tid"`
	At       *int64         `json:"ts"`
	Duration *int64         `json:"dur"`
	Args     map[string]any `json:"args"`
}

// Trace is a parsed trace.
type Trace struct {
	Events []Event
	// Tracks are the names of processes and threads, as "process: thread".
	Tracks map[Track]string
}

// Track is a thread of a process.
type Track struct{ Process, Thread int }

// Read parses a trace and checks it. It may lack its end, as after a kill of its writer, but must have only complete
// events.
func Read(data []byte) (*Trace, error) {
	text := bytes.TrimSpace(data)
	if !bytes.HasSuffix(text, []byte("]")) {
		text = append(slices.Clone(text), ']')
	}
	t := &Trace{Tracks: map[Track]string{}}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t.Events); err != nil {
		return nil, fmt.Errorf("it is not an array of events: %w", err)
	}
	return t, t.check()
}

// Named lists the events of a phase and a name.
func (t *Trace) Named(phase, name string) (list []Event) {
	for _, e := range t.Events {
		if e.Phase == phase && e.Name == name {
			list = append(list, e)
		}
	}
	return list
}

// Spans lists the spans as "NAME from BEGIN for LENGTH", in nanoseconds.
func (t *Trace) Spans() (list []string) {
	open := map[string]int64{}
	for _, e := range t.Events {
		key := fmt.Sprint(*e.Process, e.Category, e.ID, e.Name)
		switch e.Phase {
		case "X":
			list = append(list, fmt.Sprint(e.Name, " from ", 1000**e.At, " for ", 1000**e.Duration))
		case "b":
			open[key] = *e.At
		case "e":
			list = append(list, fmt.Sprint(e.Name, " from ", 1000*open[key], " for ", 1000*(*e.At-open[key])))
		}
	}
	return list
}

// Values lists the values of counters as "value at TIME", in nanoseconds.
func (t *Trace) Values() (list []string) {
	for _, e := range t.Events {
		if e.Phase != "C" {
			continue
		}
		for range e.Args {
			list = append(list, fmt.Sprint("value at ", 1000**e.At))
		}
	}
	return list
}

type span struct{ begin, end int64 }

// check checks each event, and the spans of each track, which must be nested or disjoint.
func (t *Trace) check() error {
	processes, spans, open := map[int]string{}, map[Track][]span{}, map[string]int64{}
	for i, e := range t.Events {
		wrong := func(err error) error { return fmt.Errorf("event %d, %q of phase %q: %w", i, e.Name, e.Phase, err) }
		if e.Process == nil {
			return wrong(errors.New("no process"))
		}
		track := Track{*e.Process, e.Thread}
		if e.Phase == "M" {
			name, _ := e.Args["name"].(string)
			switch e.Name {
			case "process_name":
				processes[track.Process] = name
			case "thread_name":
				t.Tracks[track] = processes[track.Process] + ": " + name
			}
			continue
		}
		if e.At == nil || *e.At < 0 {
			return wrong(errors.New("it has no time"))
		}
		start := *e.At
		if processes[track.Process] == "" {
			return wrong(errors.New("its process has no name"))
		}
		key := fmt.Sprint(track.Process, e.Category, e.ID, e.Name)
		switch e.Phase {
		case "X":
			if e.Duration == nil || *e.Duration < 0 {
				return wrong(errors.New("it has no length"))
			}
			if t.Tracks[track] == "" {
				return wrong(errors.New("its track has no name"))
			}
			spans[track] = append(spans[track], span{start, start + *e.Duration})
		case "b":
			open[key] = start
		case "e":
			begin, begun := open[key]
			if delete(open, key); !begun || begin > start {
				return wrong(errors.New("it ends before it begins"))
			}
		case "C":
			for name, value := range e.Args {
				if _, ok := value.(float64); !ok {
					return wrong(fmt.Errorf("%s is %v", name, value))
				}
			}
			if len(e.Args) == 0 {
				return wrong(errors.New("it counts nothing"))
			}
		default:
			return wrong(errors.New("the phase is not known"))
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d spans have no end", len(open))
	}
	for track, list := range spans {
		if err := nest(list); err != nil {
			return fmt.Errorf("track %s: %w", t.Tracks[track], err)
		}
	}
	return nil
}

// nest reports whether spans are nested or disjoint.
func nest(list []span) error {
	slices.SortFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end))
	})
	var around []span
	for _, s := range list {
		for len(around) > 0 && around[len(around)-1].end <= s.begin {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && s.end > around[len(around)-1].end {
			return fmt.Errorf("spans %v and %v overlap", around[len(around)-1], s)
		}
		around = append(around, s)
	}
	return nil
}
