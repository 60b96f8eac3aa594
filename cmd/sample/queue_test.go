package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/queue"
)

// natsServer starts "sample nats" with more flags, until the script ends, and sets NATS_URL: "nats [FLAG...]".
func natsServer(ts *testscript.TestScript, neg bool, args []string) {
	path, err := exec.LookPath("sample")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{"nats", "--listen", "127.0.0.1:0", "--store", ts.MkAbs("nats-store")},
		args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "NATS_USER="+ts.Getenv("NATS_USER"), "NATS_PASSWORD="+ts.Getenv("NATS_PASSWORD"))
	cmd.Stderr = ts.Stderr()
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	at, ok := strings.CutPrefix(strings.TrimSpace(line), listeningAt)
	if !ok {
		ts.Fatalf("%q", line)
	}
	ts.Setenv("NATS_URL", "nats://"+at)
}

// name sets a variable to the first line of a file: "name JOB stdout".
func name(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: name VARIABLE FILE")
	}
	line, _, _ := strings.Cut(ts.ReadFile(args[1]), "\n")
	ts.Setenv(args[0], line)
}

// A worker has the flags that the job was submitted with, whatever their kind.
func TestQueuedFlags(t *testing.T) {
	f := newFlags("submit")
	var o runOptions
	o.define(f)
	args := []string{"-m", "m.fake", "-o", "out", "-n", "3", "--stop", "a,b", "--stop", "c\"d", "--temperature", "0.25",
		"--ignore-eos", "--seed", "18446744073709551615",
		"--kv-memory", "2GB", "--progress", "none", "--work-dir", "elsewhere", "--max-tries", "9"}
	if err := f.parse(args); err != nil {
		t.Fatal(err)
	}
	d := &jobstate.Description{Inputs: []jobstate.Input{{Name: "in, with comma.jsonl"}}}
	o.inputs = []string{"in*.jsonl"}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	text, err := o.queued(f, d)
	if err != nil {
		t.Fatal(err)
	}
	var c queuedJob
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	got, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	if got.sampling.N != 3 || len(got.sampling.Stop) != 2 || got.sampling.Stop[0] != "a,b" ||
		got.sampling.Stop[1] != `c"d` || !got.sampling.IgnoreEOS || !reflect.DeepEqual(got.sampling, o.sampling) ||
		got.kvBytes != 2e9 ||
		got.progress != "auto" || got.workDir != "" || len(got.inputs) != 1 || got.inputs[0] != "in, with comma.jsonl" {
		t.Errorf("%+v", got)
	}
	if !c.local() {
		t.Error("relative names are not seen")
	}
	c.Flags["pprof"] = []string{"/etc/passwd"}
	if _, err := c.options(); err == nil {
		t.Error("a job may set a flag of the process")
	}
}

// What is in a queue is from whoever may write there.
func FuzzQueuedJob(f *testing.F) {
	f.Add(
		`{"dir":"/","flags":{"model":["m"],"output":["o"],"stop":["a","b"],"n-generations":["2"]},"description":{"inputs":[{"name":"in.jsonl"}]}}`)
	f.Add(`{"flags":{"pprof":["x"]}}`)
	f.Add(`{"flags":{"n-generations":[]},"description":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c queuedJob
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		o, err := c.options()
		if err != nil {
			return
		}
		c.local()
		if o.config != "" || o.anew || o.diagnostics != (diagnostics{}) || o.units.workers != 0 {
			t.Errorf("%s sets what is of one process: %+v", text, o)
		}
	})
}

func TestInTheOpen(t *testing.T) {
	for url, open := range map[string]bool{
		"nats://u:p@example.com:4222": true, "tls://u:p@example.com:4222": false, "nats://example.com:4222": false,
		"nats://u:p@127.0.0.1:4222": false,
		"nats://u:p@localhost:4222": false, "tls://a:1,nats://u:p@b:2": true,
	} {
		if _, got := inTheOpen(queue.Options{URL: url}); got != open {
			t.Errorf("%s: %v", url, got)
		}
	}
	server, open := inTheOpen(queue.Options{URL: "nats://example.com:4222", User: "u", Password: "p"})
	if !open || server != "example.com:4222" {
		t.Error(server, open)
	}
}

func TestOver(t *testing.T) {
	s := &queue.Status{Over: true, Job: queue.Job{Name: "out"}}
	if err := over(s); err != nil {
		t.Error(err)
	}
	s.Figures.RowsWithErrors = 1
	var exit *exitError
	if err := over(s); !errors.As(err, &exit) || exit.code != exitPartial {
		t.Error(err)
	}
	s.Lost = 2
	if err := over(s); err == nil || errors.As(err, &exit) ||
		!strings.Contains(err.Error(), "2 units of out are neither done nor in the queue") {
		t.Error(err)
	}
	s.Parked = 7
	for i := range 7 {
		s.ParkedUnits = append(s.ParkedUnits, queue.ParkedUnit{Unit: queue.Unit{Number: i, To: 5, File: "in"},
			Error: "fire"})
	}
	if err := over(s); err == nil || !strings.Contains(err.Error(),
		"unit 4 (rows 0 to 4, from in on): fire; 2 more; mend") {
		t.Error(err)
	}
}

func TestSummarize(t *testing.T) {
	s := &queue.Status{Job: queue.Job{ID: "j", Rows: 100, Ready: true}, Running: 1}
	s.Figures.Rows = 40
	if v := summarize(s); v.ETASeconds != nil || v.state() != "running" {
		t.Errorf("%+v", v)
	}
	for i, ago := range []time.Duration{0, beatEvery, time.Hour} { // the last one is dead
		s.Workers = append(s.Workers, queue.LifeSign{Life: queue.Life{Name: string(rune('a' + i)), RowsPerSecond: 2,
			TokensPerSecond: 20}, SecondsAgo: ago.Seconds()})
	}
	v := summarize(s)
	if v.RowsPerSecond != 4 || v.TokensPerSecond != 40 || *v.ETASeconds != 15 ||
		!strings.Contains(v.line(), "40/100 rows") || !strings.Contains(v.line(), "ETA 15s") {
		t.Errorf("%+v: %s", v, v.line())
	}
}
