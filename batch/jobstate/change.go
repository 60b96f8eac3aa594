package jobstate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Change is a change of a job after it was started. The job's completions are kept. Parts that the change concerns
// are written again, and stay as they were until then.
//
// The note of a part records how many changes the job had when the part was written.
type Change struct {
	Time    time.Time `json:"time"`
	Version string    `json:"version"` // version of the program
	// What lists the changes, with the old and the new values.
	What []string `json:"what"`
	// SettingsBefore has the old values of changed settings; null if a setting did not exist. InputsBefore are the
	// old inputs if they changed.
	SettingsBefore map[string]any `json:"settings_before,omitempty"`
	InputsBefore   []Input        `json:"inputs_before,omitempty"`
	// PartsFrom is the first part that is written again, with all parts after it.
	PartsFrom int `json:"parts_written_again_from"`
	// RetryErrors reports whether parts with errors are written again, too.
	RetryErrors bool `json:"errors_retried,omitempty"`
}

// Stale reports whether a part must be written again that was written after so many changes. errors states whether
// the part has rows with errors.
func (d *Description) Stale(part, changes int, errors bool) bool {
	return slices.ContainsFunc(d.Changes[min(changes, len(d.Changes)):], func(c Change) bool {
		return part >= c.PartsFrom || c.RetryErrors && errors
	})
}

// NumberAt returns an integer setting as it was after so many changes; 0 if it did not exist.
func (d *Description) NumberAt(changes int, setting string) int64 {
	value := d.Settings[setting]
	for _, c := range slices.Backward(d.Changes[min(changes, len(d.Changes)):]) {
		if before, changed := c.SettingsBefore[setting]; changed {
			value = before
		}
	}
	n, _ := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	return n
}

// Changed returns d with the settings and inputs of now, and with c as its last change. c's old values are filled in.
func (d *Description) Changed(now *Description, c Change) *Description {
	next := *d
	next.Settings, next.Inputs = now.Settings, d.Inputs
	c.SettingsBefore = map[string]any{}
	for _, name := range now.Settings.differing(d.Settings) {
		c.SettingsBefore[name] = d.Settings[name]
	}
	if !SameInputs(now.Inputs, d.Inputs) {
		c.InputsBefore, next.Inputs = d.Inputs, slices.Clone(now.Inputs)
		for i := range min(len(d.Inputs), len(next.Inputs)) {
			next.Inputs[i].Name = d.Inputs[i].Name // rows with errors are reported under this name
		}
	}
	next.Meta = maps.Clone(d.Meta)
	next.Changes = append(slices.Clone(d.Changes), c)
	return &next
}
