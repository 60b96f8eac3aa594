package resume

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset/folder"
)

// partModel is what a plain model says of a part: its rows, how many completions each has, and whether errors of it are
// there that a retry is to try again.
type partModel struct {
	from, to, n int64
	errors      bool
	changes     int // that the job had when the part was written
}

// A job grows, retries errors, and writes parts in any order: the parts that it wants written again are those whose
// content is another one.
func TestChangesOfJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.Int64Range(0, 12).Draw(t, "rows")
		partRows, n := rapid.Int64Range(1, 5).Draw(t, "part rows"), int64(1)
		settings := func() map[string]any {
			return map[string]any{"format": "jsonl", "n": n, "rows": rows, "part_rows": partRows}
		}
		read := func(d *jobstate.Description) *jobstate.Description { // as it comes back from job.json
			text, err := json.Marshal(d)
			if err == nil {
				d, err = jobstate.Parse(text)
			}
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		job := read(&jobstate.Description{Settings: settings()})
		written := map[int]*partModel{}
		retried := map[int]bool{} // parts with errors that are to be tried again
		cut := func() folder.Parts { return folder.Parts{Rows: rows, PartRows: partRows} }
		write := func(part int) {
			from, to := cut().Range(part)
			written[part] = &partModel{from, to, n, rapid.Bool().Draw(t, "errors"), len(job.Changes)}
			delete(retried, part)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"rows", "n", "retry", "write", "write"}).Draw(t, "step") {
			case "rows":
				was := cut()
				rows += rapid.Int64Range(1, 7).Draw(t, "more")
				job = read(job.Changed(&jobstate.Description{Settings: settings()},
					jobstate.Change{PartsFrom: firstChanged(was, cut(), noRow)}))
			case "n":
				n++
				job = read(job.Changed(&jobstate.Description{Settings: settings()}, jobstate.Change{}))
			case "retry":
				job = read(job.Changed(job, jobstate.Change{PartsFrom: cut().Count(), RetryErrors: true}))
				for part, of := range written {
					if of.errors {
						retried[part] = true
					}
				}
			case "write":
				write(rapid.IntRange(0, cut().Count()-1).Draw(t, "part"))
			}
			for part, of := range written {
				from, to := cut().Range(part)
				want := of.from != from || of.to != to || of.n != n || retried[part]
				if got := job.Stale(part, of.changes, of.errors); got != want {
					t.Fatalf("part %d, written as %+v: to be written again: %t, want %t; the job: %+v", part, *of, got,
						want, job)
				}
				if was := job.NumberAt(of.changes, spec.SettingN); was != of.n {
					t.Fatalf("part %d was written with n %d, not %d", part, of.n, was)
				}
				if from, to := (folder.Parts{Rows: job.NumberAt(of.changes, spec.SettingRows),
					PartRows: partRows}).Range(
					part); from != of.from || to != of.to {
					t.Fatalf("part %d was written with rows %d to %d, not %d to %d", part, of.from, of.to, from, to)
				}
			}
		}
	})
}

// Only what makes a job larger is growth.
func TestSmaller(t *testing.T) {
	was := func() *jobstate.Description {
		return &jobstate.Description{
			Settings: map[string]any{"n": json.Number("2"), "rows": json.Number("5"), "seed": 1},
			Inputs: []jobstate.Input{{Name: "a", Rows: 2, Bytes: 20, Digest: "a"}, {Name: "b", Rows: 3, Bytes: 30,
				Digest: "b"}}}
	}
	for name, c := range map[string]struct {
		change func(*jobstate.Description)
		rest   []string
	}{
		"n":          {func(d *jobstate.Description) { d.Settings["n"] = 3 }, nil},
		"fewer":      {func(d *jobstate.Description) { d.Settings["n"] = 1 }, []string{"n is 1, was 2"}},
		"rows":       {func(d *jobstate.Description) { d.Settings["rows"] = int64(6) }, nil},
		"fewer rows": {func(d *jobstate.Description) { d.Settings["rows"] = 4 }, []string{"rows is 4, was 5"}},
		"n and seed": {func(d *jobstate.Description) { d.Settings["n"], d.Settings["seed"] = 3, 2 },
			[]string{"seed is 2, was 1"}},
		"parents": {func(d *jobstate.Description) { d.Settings["parents"] = true }, nil},
		"another file": {func(d *jobstate.Description) {
			d.Inputs = append(d.Inputs, jobstate.Input{Name: "c", Rows: 1})
		}, nil},
		"moved, longer": {func(d *jobstate.Description) {
			d.Inputs[1] = jobstate.Input{Name: "x", Rows: 4, Bytes: 40}
		}, nil},
		"shorter": {func(d *jobstate.Description) { d.Inputs[1].Rows, d.Inputs[1].Bytes = 2, 20 },
			[]string{"input b has 2 rows, had 3"}},
		"first longer": {func(d *jobstate.Description) { d.Inputs[0].Rows, d.Inputs[0].Bytes = 3, 30 },
			[]string{"input a has 3 rows, had 2"}},
		"in the middle": {func(d *jobstate.Description) {
			d.Inputs = slices.Insert(d.Inputs, 1, jobstate.Input{Name: "c"})
		}, []string{"input c was not there"}},
		"none any more":  {func(d *jobstate.Description) { d.Inputs = d.Inputs[:1] }, []string{"input b is missing"}},
		"the same again": {func(*jobstate.Description) {}, nil},
	} {
		d := was()
		c.change(d)
		if rest := smaller(d, was(), true, false).Differences(was()).Texts(); fmt.Sprint(rest) != fmt.Sprint(c.rest) {
			t.Errorf("%s: %q, want %q", name, rest, c.rest)
		}
	}
}
