package tools

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quire/quire/internal/visible"
)

// Caller knows what answers the calls of a job, and how many are made at once. Its methods may be called from several
// goroutines.
type Caller struct {
	settings Settings
	tools    map[string]*served
	names    []string // for messages
	others   *served  // for tools that are not in tools; nil if there is none
}

// served is a tool with what answers its calls.
type served struct {
	*Tool
	Answerer
	turns chan struct{} // has room for as many calls as are made at once
}

// NewCaller returns what makes the calls of a job with checked settings. It starts no process yet.
func NewCaller(s *Settings) (*Caller, error) {
	registry, err := ParseRegistry(s.Registry)
	if err != nil {
		return nil, err
	}
	c := &Caller{settings: *s, tools: map[string]*served{}, names: slices.Sorted(maps.Keys(registry))}
	for name, t := range registry {
		c.Serve(name, t, answererOf(t))
	}
	if s.Command != "" {
		t := &Tool{Command: s.Command, Parallel: s.Processes, Timeout: Duration(s.Timeout)}
		t.limit()
		c.others = &served{t, answererOf(t), make(chan struct{}, t.Parallel)}
	}
	return c, nil
}

// Serve has the calls of a tool answered. It comes before the first call.
func (c *Caller) Serve(name string, t *Tool, by Answerer) {
	t.limit()
	c.tools[name] = &served{t, by, make(chan struct{}, t.Parallel)}
}

func answererOf(t *Tool) Answerer {
	if t.URL != "" {
		return newEndpoint(t)
	}
	return newCommand(t)
}

// Judge makes an error of the answer of a tool that failed, if the job's settings say so.
func (c *Caller) Judge(call *Call, a Answer) (Answer, error) {
	if a.Failed && c.settings.Failures == FailuresOfRow {
		return Answer{}, &CallError{fmt.Errorf("the call of %s: %s", visible.Quoted(call.Name),
			strings.TrimPrefix(a.Content, failed))}
	}
	return a, nil
}

// Close ends the processes. All [Calls] are closed before.
func (c *Caller) Close() error {
	var err error
	for _, t := range c.tools {
		err = errors.Join(err, t.Close())
	}
	if c.others != nil {
		err = errors.Join(err, c.others.Close())
	}
	return err
}
