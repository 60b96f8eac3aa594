package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// swapFigures are the figures of the part swaps.
type swapFigures struct {
	Preemptions int   `json:"preemptions"` // of sequences, whose pages went to the host
	MovedBytes  int64 `json:"moved_bytes"`
	Same        bool  `json:"same_bytes_as_with_all_pages"`
	PartsAtKill int   `json:"parts_when_killed"`
	Resumed     bool  `json:"same_bytes_after_kill"`
	Verified    bool  `json:"verified"`
}

// swaps runs a job with pages for all rows, and with fewer, so that sequences are swapped out; kills it, resumes it,
// and verifies the output. All write the same bytes.
func swaps(ctx context.Context, s *session) (any, error) {
	const rows, tokens, enough, few = 24, 96, 8192, 1280 // the last two are tokens of the KV cache
	shape, err := readShape(modelFile(s.folder, "dense"))
	if err != nil {
		return nil, err
	}
	prompts := filepath.Join(s.work, "swaps.jsonl")
	var lengths []int
	for i := range rows {
		lengths = append(lengths, 100+37*i%300)
	}
	if err := writeRows(prompts, lengths); err != nil {
		return nil, err
	}
	job := func(name string, room int) *generation {
		g := s.job(name, "dense")
		g.rows, g.maxTokens = prompts, tokens
		g.more = []string{"--kv-memory", fmt.Sprint(room * shape.tokenBytes(g.dtype)), "--part-rows", "2"}
		return g
	}
	roomy, swapped, killed := job("roomy", enough), job("swapped", few), job("killed", few)
	if _, err := roomy.run(ctx, s.program, nil); err != nil {
		return nil, err
	}
	made, err := swapped.run(ctx, s.program, nil)
	if err != nil {
		return nil, fmt.Errorf("with few pages: %w", err)
	}
	f := &swapFigures{Preemptions: made.report.Engine.Preemptions, MovedBytes: made.report.Engine.MovedBytes}
	want, err := outputText(roomy.output())
	if err != nil {
		return f, err
	}
	got, err := outputText(swapped.output())
	if err != nil {
		return f, err
	}
	f.Same = got == want
	switch {
	case f.Preemptions == 0:
		return f, errors.New("no sequence was swapped out")
	case !f.Same:
		return f, errors.New("the output with few pages is not the one with all pages")
	}
	if f.PartsAtKill, err = s.killEarly(ctx, killed, rows/2); err != nil {
		return f, err
	}
	if _, err := killed.run(ctx, s.program, nil); err != nil {
		return f, fmt.Errorf("resumed: %w", err)
	}
	if got, err = outputText(killed.output()); err != nil {
		return f, err
	}
	if f.Resumed = got == want; !f.Resumed {
		return f, errors.New("the output after a kill is not the one without it")
	}
	_, err = s.program.do(ctx, nil, "verify", killed.output())
	f.Verified = err == nil
	return f, err
}

// killEarly starts a job and kills it as soon as it has published a part, of so many. It returns how many there were.
func (s *session) killEarly(ctx context.Context, g *generation, all int) (parts int, err error) {
	var stderr bytes.Buffer
	cmd := s.program.command(ctx, nil, g.args()...)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("it ended before it could be killed")
			}
			return 0, processError(ctx, g.args(), err, stderr.String())
		case <-tick.C:
		}
		if found, _ := filepath.Glob(partFiles(g.output())); len(found) > 0 { // the pattern is right
			break
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	<-ended
	found, err := filepath.Glob(partFiles(g.output()))
	if err == nil && len(found) == all {
		err = errors.New("all parts were published before it was killed")
	}
	return len(found), err
}

func partFiles(output string) string { return filepath.Join(output, "part-*.jsonl") }

// outputText is all rows of an output.
func outputText(output string) (string, error) {
	found, err := filepath.Glob(partFiles(output)) // sorted
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}
