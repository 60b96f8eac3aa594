package jobstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Description is what a job is: all that its output depends on.
type Description struct {
	// OutputVersion grows when the same job would give other bytes.
	OutputVersion int    `json:"output_version"`
	Model         string `json:"model_fingerprint"`
	// Settings were given by the user, or follow from what was.
	Settings Settings `json:"settings"`
	Inputs   []Input  `json:"inputs"`
	// Settled was found when the job began, from the model and the machine, where the user left it open; whoever goes
	// on with the job takes it from here. It does not tell jobs apart.
	Settled Settled `json:"settled,omitzero"`
	// Arithmetic names what computes the completions, and so their last bits: the kernels' instruction set, the kind of
	// device. Who goes on with the job must compute in the same way; its name is not known before the device is.
	Arithmetic string `json:"arithmetic,omitempty"`
	// Device is what the job began on, and Meta what its parts carry. They do not tell jobs apart either.
	Device string            `json:"device,omitempty"`
	Meta   map[string]string `json:"meta,omitempty"`

	// Key is [State.Key] of a job that was changed, in hex. Changes are its changes, the first one first.
	Key     string   `json:"key,omitempty"`
	Changes []Change `json:"changes,omitempty"`
}

// Parse reads a description as job.json has it.
func Parse(b []byte) (*Description, error) {
	var d Description
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber() // seeds need all 64 bits
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	return &d, nil
}

// Input is a file that the job reads. It is told from others by all but its name.
type Input struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"`
	// Columns are those that the names of its folders give all its rows, such as lang=en. Jobs of older versions do
	// not have them.
	Columns string `json:"columns,omitempty"`
}

// DifferentJobError says that an output folder holds another job than the one that is to go on there.
type DifferentJobError struct {
	Output      string
	Differences Differences
}

func (e *DifferentJobError) Error() string {
	return fmt.Sprintf("%s holds another job:\n  %s", e.Output, strings.Join(e.Differences.Texts(), "\n  "))
}

// manyInputs is how many inputs that differ are named one by one.
const manyInputs = 5

// Differences names what tells d from the job that was begun, was; none means that they are one job.
func (d *Description) Differences(was *Description) Differences {
	var out Differences
	differ := func(format string, args ...any) {
		out = append(out, Difference{Text: fmt.Sprintf(format, args...)})
	}
	if d.OutputVersion != was.OutputVersion {
		differ("this version of the program writes output version %d, and the job was begun with %d", d.OutputVersion,
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

// content is what tells an input from others, wherever it is.
func (in Input) content() Input {
	in.Name = ""
	return in
}

// SameInputs says whether a job reads the same files in the same order. Their names may differ.
func SameInputs(now, was []Input) bool {
	return slices.EqualFunc(now, withColumns(was, now), func(a, b Input) bool { return a.content() == b.content() })
}

// withColumns gives inputs of a job of an older version the columns of their folders, which follow from their names.
func withColumns(was, now []Input) []Input {
	columns := map[string]string{} // by name
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

func (d *Description) inputDifferences(of *Description) (out Differences) {
	if SameInputs(d.Inputs, of.Inputs) {
		return nil
	}
	was := withColumns(of.Inputs, d.Inputs)
	differ := func(what DifferenceOf, name, format string, args ...any) {
		out = append(out, Difference{what, name, fmt.Sprintf(format, args...)})
	}
	before, left := map[string]Input{}, map[Input]int{}
	for _, in := range was {
		before[in.Name] = in
		left[in.content()]++
	}
	names := map[string]bool{} // of files that have other content
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
			differ(InputContent, in.Name, "has %d rows in %d bytes, had %d in %d: it was written anew", in.Rows,
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
		differ(WholeJob, "", "the inputs are in another order")
	}
	return out
}

func orNothing(s string) string {
	if s == "" {
		return "not given"
	}
	return s
}
