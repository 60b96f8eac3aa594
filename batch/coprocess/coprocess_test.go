package coprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func pool(t *testing.T, o Options) *Pool {
	t.Helper()
	if o.Processes == 0 {
		o.Processes = 1
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = 1 << 16
	}
	o.Attempts = max(1, o.Attempts)
	p := New(o)
	t.Cleanup(func() { p.Close() })
	return p
}

// A command that the shell will not find is known before it runs. What is not surely missing passes.
func TestCheck(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for command, missing := range map[string]bool{
		"": false, "cat": false, " cat -n": false, "exit 3": false, "while read x; do echo; done": false, script: false,
		"X=1 nosuch": false, "'nosuch'": false, "(nosuch)": false, "$nosuch": false, "sh nosuch.sh": false,
		"nosuch": true, "nosuch.py --x": true, script + ".other a": true, "./nosuch\tx": true, "nosuch\ncat": true,
	} {
		if err := Check(command); (err != nil) != missing {
			t.Errorf("%q: %v", command, err)
		}
	}
}

// Each answer belongs to its question, with several processes and long lines.
func TestAnswersBelongToQuestions(t *testing.T) {
	p := pool(t, Options{Command: `while IFS= read -r x; do echo "got $x"; done`, Processes: 3})
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			line := strings.Repeat(fmt.Sprint(i), 1+i*100)
			answer, err := p.Ask(t.Context(), []byte(line))
			if err != nil || string(answer) != "got "+line {
				t.Errorf("%.20s: %.20s, %v", line, answer, err)
			}
		})
	}
	all.Wait()
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Command: "echo no such thing >&2; exit 3"}, "ended without an answer: no such thing"},
		{Options{Command: "read x; exit 3", Attempts: 3}, "ended without an answer"},
		{Options{Command: "sleep 60", Timeout: 50 * time.Millisecond}, "gave no answer within 50ms"},
		{Options{Command: "sleep 60 & read x; echo $x; sleep 60", Timeout: time.Minute, MaxAnswer: 1}, ""},
		{Options{Command: "while :; do printf aaaaaaaaaaaaaaaa; done", MaxAnswer: 1000},
			"wrote more than 1000 bytes without an end of line"},
	} {
		answer, err := pool(t, c.options).Ask(t.Context(), []byte("x"))
		if c.want == "" && err == nil && string(answer) == "x" {
			continue
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.options.Command, answer, err, c.want)
		}
	}
}

// A process that dies is replaced: the question is asked again, and later ones are answered.
func TestProcessesAreReplaced(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	p := pool(t, Options{Command: `while read x; do [ "$x" = die ] && [ ! -e ` + mark + ` ] && { touch ` + mark +
		`; exit 1; }; echo $x; done`, Attempts: 2})
	for _, line := range []string{"a", "die", "b"} {
		if answer, err := p.Ask(t.Context(), []byte(line)); err != nil || string(answer) != line {
			t.Errorf("%s: %s, %v", line, answer, err)
		}
	}
}

// A question that nobody waits for any more ends its process, with all that this has started.
func TestCancelledQuestions(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	p := pool(t, Options{Command: "read x; touch " + mark + "; sleep 3600 & wait"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(mark); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := p.Ask(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A process that ends after each answer is replaced, and no line is lost with it, nor given to two processes.
func TestProcessesOfOneAnswer(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	p := pool(t, Options{Command: `read x; echo $x >>` + asked + `; echo $x`})
	var want strings.Builder
	for i := range 50 {
		if answer, err := p.Ask(t.Context(), fmt.Append(nil, i)); err != nil || string(answer) != fmt.Sprint(i) {
			t.Fatalf("%d: %s, %v", i, answer, err)
		}
		fmt.Fprintln(&want, i)
	}
	if got, err := os.ReadFile(asked); err != nil || string(got) != want.String() {
		t.Errorf("the processes got %s (%v)", got, err)
	}
}

// A process may have as much memory as it is given, and no more.
func TestMemory(t *testing.T) {
	const command = `read x; y=$(head -c $x /dev/zero | tr '\0' a) || exit; echo ${#y}`
	p := pool(t, Options{Command: command, Memory: 64 << 20})
	if answer, err := p.Ask(t.Context(), []byte("1000000")); err != nil || string(answer) != "1000000" {
		t.Errorf("%s, %v", answer, err)
	}
	if answer, err := p.Ask(t.Context(), []byte("100000000")); err == nil {
		t.Errorf("a process with 64 MiB held 100 MB: %s", answer)
	}
}

// An answer may lack its end if the process ends well, and come from one that reads nothing.
func TestLastLines(t *testing.T) {
	for command, want := range map[string]string{"read x; printf yes": "yes", "echo yes": "yes", "printf yes": "yes",
		"read x; printf part; exit 3": "", "read x; printf part; kill -9 $$": ""} {
		p := pool(t, Options{Command: command})
		for range 5 {
			if answer, err := p.Ask(t.Context(), []byte("x")); string(answer) != want || (err == nil) != (want != "") {
				t.Errorf("%s: %q, %v", command, answer, err)
			}
		}
	}
}

// A second answer is not that of the next question.
func TestSecondAnswers(t *testing.T) {
	p := pool(t, Options{Command: `echo ready; while read x; do echo $x; done`})
	for i, want := range []string{"ready", "", "ready"} {
		answer, err := p.Ask(t.Context(), fmt.Append(nil, i))
		if string(answer) != want || (err == nil) != (want != "") {
			t.Errorf("%d: %q, %v", i, answer, err)
		}
		one := <-p.slots
		for one != nil && one.answers.Buffered()+unread(one.out) == 0 { // until it has answered
			time.Sleep(time.Millisecond)
		}
		p.slots <- one
	}
}
