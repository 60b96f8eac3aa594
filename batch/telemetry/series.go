package telemetry

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// event is a line of the file.
type event struct {
	Start   *Start   `json:"start,omitempty"`
	Point   *Point   `json:"point,omitempty"`
	Weights *Weights `json:"weights,omitempty"`
	Slowest []Row    `json:"slowest,omitempty"`
	End     *End     `json:"end,omitempty"`
}

// End is how a run ended.
type End struct {
	Time   time.Time `json:"time"`
	Result string    `json:"result"` // "finished", "interrupted", or an error
}

// The first points are a second apart; after every further thousand the interval doubles. So a file of a day has some
// 8,000 lines and 1.5 MB, and one of a month 5,000 more.
const (
	firstInterval = time.Second
	pointsAtOnce  = 1000
)

// Series is a file of points.
type Series struct {
	run    *Run
	file   *os.File
	first  time.Duration
	end    chan End
	done   chan struct{}
	err    error
	writer *bufio.Writer
}

// Keep starts to append the run's time series to a file. Nothing is written before Started.
func (r *Run) Keep(path string) (*Series, error) { return r.keep(path, firstInterval) }

func (r *Run) keep(path string, first time.Duration) (*Series, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	s := &Series{run: r, file: f, first: first, end: make(chan End, 1), done: make(chan struct{}),
		writer: bufio.NewWriter(f)}
	// A process that died may have left an incomplete line.
	s.writer.WriteString("\n")
	go s.loop()
	return s, nil
}

func (s *Series) loop() {
	defer close(s.done)
	interval, points := s.first, 0
	started := false
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		var end *End
		select {
		case e := <-s.end:
			end = &e
		case <-timer.C:
		}
		s.run.mu.Lock()
		start, ready := s.run.start, !s.run.start.Time.IsZero()
		slowest := slices.Clone(s.run.slowest)
		var weights []Weights
		if ready {
			weights, s.run.weights = s.run.weights, nil
		}
		s.run.mu.Unlock()
		if ready {
			if !started {
				started = true
				s.write(event{Start: &start})
			}
			for _, w := range weights {
				s.write(event{Weights: &w})
			}
			p := s.run.point()
			s.write(event{Point: &p})
		}
		if end != nil {
			if started {
				s.write(event{Slowest: slowest, End: end})
			}
			s.note(s.writer.Flush())
			return
		}
		s.note(s.writer.Flush())
		if points++; points%pointsAtOnce == 0 {
			interval *= 2
		}
		timer.Reset(interval)
	}
}

func (s *Series) write(e event) {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = s.writer.Write(append(text, '\n'))
	}
	s.note(err)
}

func (s *Series) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Close writes how the run ended, and the slowest rows. It returns the first error of writing, because an error does
// not end the run.
func (s *Series) Close(result string) error {
	s.end <- End{Time: time.Now(), Result: result}
	<-s.done
	return errors.Join(s.err, s.file.Close())
}

// Process is the record of one process of a job in a file of points.
type Process struct {
	Name    string // set by the reader; the file has none
	Start   Start
	Points  []Point
	Weights []Weights // that its engines took, in order; none if the job's weights stay
	Slowest []Row
	End     *End // nil if it was killed
	// Written is when the file was last written; set only for the last process in it.
	Written time.Time
}

// Fresh reports whether the process wrote shortly before now, as a running one does.
func (p *Process) Fresh(now time.Time) bool {
	const patience = 15 * time.Second
	gap := 0.0
	if n := len(p.Points); n > 1 {
		gap = p.Points[n-1].Seconds - p.Points[n-2].Seconds
	}
	return p.End == nil && now.Sub(p.Written) < patience+time.Duration(3*gap*float64(time.Second))
}

// Bounds of what is read, because anybody with access to the folder may have written the file.
const (
	maxLine    = 1 << 20
	maxPoints  = 1 << 20
	maxWeights = 1 << 16
)

// Read reads a file of points. Incomplete lines are skipped.
func Read(path string) ([]Process, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := read(f)
	if info, statErr := f.Stat(); len(all) > 0 && statErr == nil {
		all[len(all)-1].Written = info.ModTime()
	}
	return all, err
}

func read(r io.Reader) ([]Process, error) {
	var all []Process
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	points := 0
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if e.Start != nil {
			all = append(all, Process{Start: *e.Start})
		}
		if len(all) == 0 {
			continue
		}
		p := &all[len(all)-1]
		if e.Point != nil {
			if points++; points > maxPoints {
				return nil, fmt.Errorf("it has more than %d points", maxPoints)
			}
			p.Points = append(p.Points, *e.Point)
		}
		if e.Weights != nil && len(p.Weights) < maxWeights {
			p.Weights = append(p.Weights, *e.Weights)
		}
		if e.Slowest != nil {
			p.Slowest = e.Slowest[:min(len(e.Slowest), slowestRows)]
		}
		if e.End != nil {
			p.End = e.End
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("it is not a file of points: %w", err)
	}
	return all, nil
}
