// Package tools makes the calls that completions ask for: each once.
//
// A [Registry] knows what answers the calls of a tool, a [Caller] makes calls side by side within their limits, and a
// [Log] keeps what was called and what came of it, so that no call is made twice when a process continues the work of
// one that died.
package tools

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/visible"
)

// Settings are which tools completions of a job may call, and what happens to the results. The zero value is no tools.
type Settings struct {
	// Registry is JSON that names tools: see [ParseRegistry]. Command is a shell command that answers the calls of all
	// tools that the registry lacks.
	Registry string `json:"registry,omitempty"`
	Command  string `json:"command,omitempty"`
	// MaxTurns is how many turns the model has in a row at most, and Failures what a tool that fails is: one of the
	// values below. Zero values stand for the defaults.
	MaxTurns int    `json:"max_turns,omitempty"`
	Failures string `json:"failures,omitempty"`

	// Processes is how many processes of Command run, and Timeout how long each may take for an answer; 0 stands for
	// the defaults.
	Processes int           `json:"processes,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
}

// Values of [Settings.Failures].
const (
	FailuresToModel = "result" // a result that the model sees
	FailuresOfRow   = "row"    // the row's error
)

// Defaults of settings, and of tools of a registry.
const (
	DefaultMaxTurns  = 10
	DefaultProcesses = 8
	DefaultTimeout   = time.Minute
	DefaultOutput    = 64 << 10
)

// Used reports whether completions may call tools.
func (s *Settings) Used() bool { return s.Registry != "" || s.Command != "" }

// Impure returns whether there is a tool that is not declared pure, with its name. The tools of a command are not.
func (s *Settings) Impure() (name setting.Text, is bool) {
	return s.has(func(t *Tool) bool { return !t.Pure })
}

// Once returns whether there is a tool that is not declared idempotent, with its name. The tools of a command are not.
func (s *Settings) Once() (name setting.Text, is bool) {
	return s.has(func(t *Tool) bool { return !t.Idempotent })
}

func (s *Settings) has(property func(*Tool) bool) (name setting.Text, is bool) {
	if s.Command != "" {
		return setting.Textf("`tool-command`"), true
	}
	r, _ := ParseRegistry(s.Registry)
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if property(r[name]) {
			return setting.Textf("%s", visible.Quoted(name)), true
		}
	}
	return name, false
}

// Turns is how many turns the model has at most.
func (s *Settings) Turns() int { return cmp.Or(s.MaxTurns, DefaultMaxTurns) }

// Identity returns the settings on which rows depend, nil for none.
func (s *Settings) Identity() *Settings {
	if !s.Used() {
		return nil
	}
	own := *s
	own.Processes, own.Timeout = 0, 0
	own.MaxTurns, own.Failures = s.Turns(), cmp.Or(s.Failures, FailuresToModel)
	if r, err := ParseRegistry(s.Registry); err == nil && len(r) > 0 {
		own.Registry = r.identity()
	}
	return &own
}

// Check checks the settings, and sets what they leave open. invalid makes the error about a field.
func (s *Settings) Check(invalid func(field, format string, args ...any) error) error {
	if s.Registry != "" {
		if _, err := ParseRegistry(s.Registry); err != nil {
			return invalid("tools-from", "%w", err)
		}
	}
	for _, f := range []struct {
		field    string
		negative bool
		given    bool
		value    any
	}{
		{"max-turns", s.MaxTurns < 0, s.MaxTurns != 0, s.MaxTurns},
		{"tool-processes", s.Processes < 0, s.Processes != 0, s.Processes},
		{"tool-timeout", s.Timeout < 0, s.Timeout != 0, s.Timeout},
		{"tool-failures", false, s.Failures != "", s.Failures},
	} {
		switch {
		case f.negative:
			return invalid(f.field, "is %v, but must be above 0", f.value)
		case f.given && !s.Used():
			return invalid(f.field, "is given, and completions call no tools: give `tools-from` or `tool-command`, or "+
				"leave it out")
		case f.given && s.Command == "" && slices.Contains([]string{"tool-processes", "tool-timeout"}, f.field):
			return invalid(f.field, "is given, and there is no `tool-command`: leave it out; tools of `tools-from` "+
				"have limits of their own")
		}
	}
	if s.Failures != "" && s.Failures != FailuresToModel && s.Failures != FailuresOfRow {
		return invalid("tool-failures", "is %q, but must be %s or %s", s.Failures, FailuresToModel, FailuresOfRow)
	}
	return nil
}
