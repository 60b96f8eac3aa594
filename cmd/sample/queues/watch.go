package queues

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// watchEvery is the interval at which a queue is polled.
const watchEvery = time.Second

// watchJobs shows the jobs of a queue, or one of them, until none can continue by itself. For one job it returns the
// same error as --wait.
func watchJobs(ctx context.Context, env *cli.Environment, q *queue.Queue, job string) error {
	view := newLiveView(env.Stdout)
	for {
		all, err := jobsOf(ctx, q, job)
		if err != nil {
			return err
		}
		if err := view.show(all); err != nil {
			return err
		}
		over := true
		for _, v := range all {
			over = over && v.Over
		}
		switch {
		case over && job != "":
			return distribute.JobOver(all[0].Status)
		case over:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchEvery):
		}
	}
}

// jobsOf returns how far the jobs of a queue are, or the one of that name.
func jobsOf(ctx context.Context, q *queue.Queue, job string) ([]*distribute.JobStatus, error) {
	all := []*distribute.JobStatus{}
	if job != "" {
		s, err := q.Status(ctx, job)
		if err != nil {
			return nil, noJobHint(err)
		}
		return append(all, distribute.Summarize(s)), nil
	}
	jobs, err := q.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		s, err := q.Status(ctx, job.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, distribute.Summarize(s))
	}
	return all, nil
}

// jobLine is a job in a list.
func jobLine(v *distribute.JobStatus) string { return fmt.Sprintf("%s, to %s", v.Line(), v.Output) }

// liveView shows jobs, one per line. On a terminal the lines stay in place; elsewhere a job gets a new line when it has
// changed.
type liveView struct {
	to       io.Writer
	terminal io.Writer                  // nil elsewhere
	size     func() (width, height int) // of the terminal
	drawn    int                        // lines on it
	last     map[string]string          // the line of each job, elsewhere
}

func newLiveView(w io.Writer) *liveView {
	view := &liveView{to: w, last: map[string]string{}}
	if f, ok := cli.FileOf(w); ok && cli.IsTerminal(w) {
		view.terminal = f
		view.size = func() (width, height int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		}
	}
	return view
}

func (l *liveView) show(all []*distribute.JobStatus) error {
	var lines []string
	for _, v := range all {
		lines = append(lines, jobLine(v))
	}
	if len(all) == 0 {
		lines = append(lines, "the queue has no jobs")
	}
	if l.terminal != nil {
		return l.draw(lines)
	}
	for i, line := range lines {
		job := ""
		if len(all) > 0 {
			job = all[i].Job
		}
		if l.last[job] == line {
			continue
		}
		l.last[job] = line
		if _, err := fmt.Fprintln(l.to, line); err != nil {
			return err
		}
	}
	return nil
}

// draw replaces the lines on the terminal. They are cut to its size: lines that wrap or scroll could not be replaced.
func (l *liveView) draw(lines []string) error {
	width, height := l.size()
	if most := max(height-2, 1); len(lines) > most {
		lines = append(lines[:most-1:most-1], plural.Count(len(lines)-most+1, "more job"))
	}
	var b bytes.Buffer
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.drawn)
	}
	b.WriteString("\r\x1b[J")
	for _, line := range lines {
		cut := []rune(visible.Line(line))
		b.WriteString(strings.TrimRight(string(cut[:min(len(cut), max(width-1, 1))]), " ") + "\n")
	}
	l.drawn = len(lines)
	_, err := l.terminal.Write(b.Bytes())
	return err
}
