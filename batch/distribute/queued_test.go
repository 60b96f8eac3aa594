package distribute

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/tally"
)

// A worker has the job that was submitted, and nothing of the process that did.
func TestQueuedJob(t *testing.T) {
	spec := spec.Default()
	spec.Model, spec.Inputs, spec.Output, spec.Limit = "m.fake", []string{"in*.jsonl"}, "out", 7
	spec.Sampling.N, spec.Sampling.Stop, spec.Sampling.IgnoreEOS = 3, []string{"a,b", `c"d`}, true
	spec.Sampling.Temperature, spec.Sampling.Seed = 0.25, 1<<64-1
	spec.Engine.KVMemory, spec.Engine.TP = 2e9, 2
	described, err := process.Describe(spec, process.Options{WorkDir: "elsewhere", New: true, Debug: true})
	if err != nil {
		t.Fatal(err)
	}
	opened := &prepare.Opened{Job: described, Description: &jobstate.Description{
		Inputs: []jobstate.Input{{Name: "in, with comma.jsonl"}}, Settings: described.Parameters()}}
	job, err := queueJob(t.Context(), opened, UnitOptions{MaxTries: 9}, tally.Counts{})
	if err != nil || job.MaxTries != 9 {
		t.Fatal(job.MaxTries, err)
	}
	c, err := parseQueued(job.Config)
	if err != nil {
		t.Fatal(err)
	}
	spec.Inputs = []string{"in, with comma.jsonl"}
	if got := c.fullSpec(); !reflect.DeepEqual(got, spec) {
		t.Errorf("%+v, want %+v", got, spec)
	}
	if differences := opened.Description.Differences(c.Description); len(differences) > 0 {
		t.Error(differences)
	}
	if !c.local() {
		t.Error("relative names are not seen")
	}
	config := strings.Replace(string(job.Config), c.Dir, "", 1) // wherever the test runs
	for _, process := range []string{"elsewhere", "work", "debug"} {
		if strings.Contains(strings.ToLower(config), process) {
			t.Errorf("%s is in the queue: %s", process, job.Config)
		}
	}
	other := bytes.Replace(job.Config, []byte(`"spec":{`), []byte(`"spec":{"Later":1,`), 1)
	if _, err := parseQueued(other); !errors.Is(err, errOtherVersion) {
		t.Errorf("a field that this version does not know: %v", err)
	}
}

// What is in a queue is from whoever may write there: it is refused, or a job with settings that are right.
func FuzzQueuedJob(f *testing.F) {
	spec := spec.Default()
	spec.Model, spec.Output = "m", "o"
	text, err := json.Marshal(queuedJob{Dir: "/", Spec: spec, Description: &jobstate.Description{
		Inputs: []jobstate.Input{{Name: "in.jsonl"}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(`{"dir":"/","flags":{"model":["m"],"output":["o"]},"description":{"inputs":[{"name":"in.jsonl"}]}}`)
	f.Add(`{"spec":{"Sampling":{"N":-1}},"description":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseQueued([]byte(text))
		if err != nil {
			return
		}
		c.local()
		described, err := process.Describe(c.fullSpec(), process.Options{})
		if err == nil && (described.Sampling.N < 1 || described.Engine.TP < 1 || described.Model == "") {
			t.Errorf("%s is a job: %+v", text, described.Spec)
		}
	})
}

// FuzzSettled continues with any job.json: sizes are taken from it or differ, never by a panic.
func FuzzSettled(f *testing.F) {
	f.Add(
		[]byte(
			`{"settings": {"rows": 5, "part_rows": 2, "format": "jsonl"}, "settled": {"max_seqs": 4, "dtype": "float32", "kv_bytes": 1000}}`))
	f.Add([]byte(`{"settled": {"max_seqs": "x", "page_size": -1e99, "dtype": "f8", "kv_dtype": ["a"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := jobstate.Parse(b)
		if err != nil {
			return
		}
		e := spec.Engine{DType: "auto", KVDType: "auto"}
		if e, _, err = e.SettledAs(d.Settled); err != nil {
			return
		}
		if e.DType == "" || e.KVDType == "" {
			t.Fatalf("%s makes %+v", b, e)
		}
		jobstate.Settled{MaxSeqs: 1, DType: "float32"}.Same(d.Settled)
	})
}
