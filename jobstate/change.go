package jobstate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Change is a change of a job after it was begun. Its completions stay. Parts that the change concerns are written
// again, and until then those from before are there.
//
// The note of a part has how many changes the job had when the part was written.
type Change struct {
	Time    time.Time `json:"time"`
	Version string    `json:"version"` // of the program
	// What names each thing that was changed, how it is and how it was.
	What []string `json:"what"`
	// SettingsBefore are the settings that were changed, as they were; null where there was none. InputsBefore are the
	// inputs, where they were changed.
	SettingsBefore map[string]any `json:"settings_before,omitempty"`
	InputsBefore   []Input        `json:"inputs_before,omitempty"`
	// PartsFrom says that parts from this number on are written again.
	PartsFrom int `json:"parts_written_again_from"`
	// RetryErrors says that so are parts with errors.
	RetryErrors bool `json:"errors_retried,omitempty"`
}

// Stale says whether a part is to be written again that was written after so many changes. errors says whether it has
// rows with errors.
func (d *Description) Stale(part, changes int, errors bool) bool {
	return slices.ContainsFunc(d.Changes[min(changes, len(d.Changes)):], func(c Change) bool {
		return part >= c.PartsFrom || c.RetryErrors && errors
	})
}

// NumberAt is a setting that is a whole number, as it was after so many changes; 0 where there was none.
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

// Changed returns the description of a job that settings and inputs of now make of d, without the parts that c says are
// written again.
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
			next.Inputs[i].Name = d.Inputs[i].Name // as rows with errors call it
		}
	}
	next.Meta = maps.Clone(d.Meta)
	next.Changes = append(slices.Clone(d.Changes), c)
	return &next
}
