package jobstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Description identifies a job: it has everything that the output depends on.
type Description struct {
	// OutputVersion is raised if the same job would produce different bytes.
	OutputVersion int    `json:"output_version"`
	Model         string `json:"model_fingerprint"`
	// Settings were given by the user or follow from what was given.
	Settings Settings `json:"settings"`
	Inputs   []Input  `json:"inputs"`
	// Settled has the values that the user left open and that were found from the model and the machine when the job
	// started. A process that continues the job uses them. They are not part of the comparison of jobs.
	Settled Settled `json:"settled,omitzero"`
	// Arithmetic names what computes the completions and so decides their last bits: the kernels' instruction set, or
	// the kind of device. A process that continues the job must compute in the same way. The name is unknown until
	// the device is.
	Arithmetic string `json:"arithmetic,omitempty"`
	// Device is what the job started on. Runtime is Device without the level of the kernels, as far as Arithmetic does
	// not keep it; jobs of older versions have none. Meta is the metadata of parts. None of them is part of the
	// comparison of jobs.
	Device  string            `json:"device,omitempty"`
	Runtime string            `json:"runtime,omitempty"`
	Meta    map[string]string `json:"meta,omitempty"`

	// Key is [State.Key] of a job that was changed, in hex. Changes lists its changes, oldest first.
	Key     string   `json:"key,omitempty"`
	Changes []Change `json:"changes,omitempty"`
}

// Parse parses a description in the form of job.json.
func Parse(b []byte) (*Description, error) {
	var d Description
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber() // seeds need all 64 bits
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	return &d, nil
}

// Input is a file that the job reads. Everything but its name is part of the comparison of inputs.
type Input struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"`
	// Columns are the columns that the names of the input's folders give to all its rows, such as lang=en. Jobs of
	// older versions do not have them.
	Columns string `json:"columns,omitempty"`
}

// DifferentJobError reports that an output folder holds a different job from the one to continue there.
type DifferentJobError struct {
	Output      string
	Differences Differences
}

func (e *DifferentJobError) Error() string {
	return fmt.Sprintf("%s holds another job:\n  %s", e.Output, strings.Join(e.Differences.Texts(), "\n  "))
}

// manyInputs is the largest number of differing inputs that are named one by one.
const manyInputs = 5

// Differences lists the differences between d and the job that was started, was. If there are none, both are the same
// job.
func (d *Description) Differences(was *Description) Differences {
	var out Differences
	differ := func(format string, args ...any) {
		out = append(out, Difference{Text: fmt.Sprintf(format, args...)})
	}
	if d.OutputVersion != was.OutputVersion {
		differ("this version of the program writes output version %d, but the job was started with %d", d.OutputVersion,
			was.OutputVersion)
	}
	if d.Model != was.Model {
		differ("the model's files are not the same (fingerprint %.12s, was %.12s)", d.Model, was.Model)
	}
	for _, name := range d.Settings.differing(was.Settings) {
		out = append(out, Differ(name, orNothing(d.Settings.text(name)), orNothing(was.Settings.text(name))))
	}
	inputs := d.inputDifferences(was)
	if more := len(inputs) - manyInputs; more > 0 {
		inputs = append(inputs[:manyInputs], Difference{Text: fmt.Sprintf("%d more inputs differ", more)})
	}
	return append(out, inputs...)
}

// content returns the input without its name, which identifies it in any place.
func (in Input) content() Input {
	in.Name = ""
	return in
}

// SameInputs reports whether two jobs read the same files in the same order. The names may differ.
func SameInputs(now, was []Input) bool {
	return slices.EqualFunc(now, withColumns(was, now), func(a, b Input) bool { return a.content() == b.content() })
}

// withColumns adds the columns of folders to the inputs of a job of an older version. They follow from the inputs'
// names.
func withColumns(was, now []Input) []Input {
	columns := map[string]string{} // columns by the inputs' names
	for _, in := range now {
		if in.Columns != "" {
			columns[in.Name] = in.Columns
		}
	}
	if len(columns) == 0 {
		return was
	}
	was = slices.Clone(was)
	for i := range was {
		if was[i].Columns == "" {
			was[i].Columns = columns[was[i].Name]
		}
	}
	return was
}

func (d *Description) inputDifferences(old *Description) (out Differences) {
	if SameInputs(d.Inputs, old.Inputs) {
		return nil
	}
	was := withColumns(old.Inputs, d.Inputs)
	differ := func(what DifferenceOf, name, format string, args ...any) {
		out = append(out, Difference{what, name, fmt.Sprintf(format, args...)})
	}
	before, left := map[string]Input{}, map[Input]int{}
	for _, in := range was {
		before[in.Name] = in
		left[in.content()]++
	}
	names := map[string]bool{} // names of files whose content differs
	for _, in := range d.Inputs {
		if left[in.content()] > 0 {
			left[in.content()]--
			continue
		}
		names[in.Name] = true
		switch b, ok := before[in.Name]; {
		case !ok:
			differ(InputSet, in.Name, "was not there")
		case in.Rows > b.Rows && in.Bytes <= b.Bytes:
			differ(InputContent, in.Name, "has %d rows in %d bytes, had %d in %d: it was written again", in.Rows,
				in.Bytes, b.Rows, b.Bytes)
		case in.Rows != b.Rows:
			differ(InputContent, in.Name, "has %d rows, had %d", in.Rows, b.Rows)
		case in.Bytes != b.Bytes:
			differ(InputContent, in.Name, "has %d bytes, had %d", in.Bytes, b.Bytes)
		case in.Digest != b.Digest:
			differ(InputContent, in.Name, "has other content")
		case in.Columns != b.Columns:
			differ(InputContent, in.Name, "has the columns %s, had %s", orNothing(in.Columns),
				orNothing(b.Columns))
		default:
			differ(InputSet, in.Name, "is there twice")
		}
	}
	for _, in := range was {
		if left[in.content()] > 0 && !names[in.Name] {
			left[in.content()]--
			differ(InputSet, in.Name, "is missing")
		}
	}
	if len(out) == 0 {
		differ(WholeJob, "", "the inputs are in a different order")
	}
	return out
}

func orNothing(s string) string {
	if s == "" {
		return "not given"
	}
	return s
}

// Kernels starts the names of the arithmetic of the kernels in C: see [Description.Arithmetic].
const Kernels = "kernels "

// SizesMatter reports whether the last bits of completions depend on the engine's slots, pages and steps. The kernels
// in C compute a row in the same way whatever these are.
func (d *Description) SizesMatter() bool { return !strings.HasPrefix(d.Arithmetic, Kernels) }

// Binding returns what a process that continues the job has to settle on too.
func (d *Description) Binding() Settled {
	s := d.Settled
	if !d.SizesMatter() {
		s.MaxSeqs, s.PageSize, s.PrefillTokens = 0, 0, 0
	}
	return s
}
