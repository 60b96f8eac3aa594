package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/internal/visible"
)

// Registry knows the tools of a job by their names.
type Registry map[string]*Tool

// Tool is a tool of a registry: either Command or URL answers its calls.
type Tool struct {
	// Command is a shell command whose processes get a line for each call, and answer with one.
	Command string `json:"command,omitempty"`
	// URL is an HTTP endpoint that gets each call by POST. It must be of this machine unless Remote is set.
	URL    string `json:"url,omitempty"`
	Remote bool   `json:"remote,omitempty"`
	// Idempotent reports that a call may be made again if a process died while it was under way.
	Idempotent bool `json:"idempotent,omitempty"`
	// Pure reports that equal calls have equal answers, and that a call changes nothing: it need not be made if its
	// answer is known, and it may be made again.
	Pure bool `json:"pure,omitempty"`
	// Definition is the tool in the form of OpenAI's API, for the chat template.
	Definition json.RawMessage `json:"definition,omitempty"`

	// Limits of a call. Memory is of the address space of each process.
	Timeout   Duration `json:"timeout,omitempty"`
	Memory    Size     `json:"memory,omitempty"`
	MaxOutput Size     `json:"max_output,omitempty"`
	Parallel  int      `json:"parallel,omitempty"` // calls at once
}

// Duration is a time that JSON has as text, such as "10s".
type Duration time.Duration

// UnmarshalJSON reads text with a unit.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return fmt.Errorf("%s is no time: write text with a unit, such as \"10s\"", b)
	}
	value, err := time.ParseDuration(text)
	if err != nil || value <= 0 {
		return fmt.Errorf("%q is no time above 0: write it as \"500ms\" or \"10s\"", text)
	}
	*d = Duration(value)
	return nil
}

// MarshalJSON writes text with a unit.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Size is a number of bytes, which JSON has as a number or as text such as "256MiB".
type Size int64

// UnmarshalJSON reads a number, or text with a unit.
func (s *Size) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	value, err := humanize.ParseBytes(text)
	if err != nil || value < 1 || value > 1<<50 {
		return fmt.Errorf("%q is no size: write it as \"64KiB\" or \"512MiB\"", text)
	}
	*s = Size(value)
	return nil
}

// ParseRegistry parses a registry: a JSON object with a [Tool] for each name. An empty text is an empty registry.
func ParseRegistry(text string) (Registry, error) {
	r := Registry{}
	if text == "" {
		return r, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("is no registry of tools: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("is no registry of tools: there is more after the object")
	}
	if len(r) == 0 {
		return nil, errors.New("has no tools")
	}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if err := r[name].check(name); err != nil {
			return nil, fmt.Errorf("has the tool %s: %w", visible.Quoted(name), err)
		}
	}
	return r, nil
}

// check checks a tool, and sets the limits that it leaves open.
func (t *Tool) check(name string) error {
	switch {
	case t == nil:
		return errors.New("it is null; give it a command or a url")
	case name == "":
		return errors.New("it has no name")
	case (t.Command == "") == (t.URL == ""):
		return errors.New("give it a command or a url, and not both")
	case t.Command == "" && t.Memory > 0:
		return errors.New("memory is for processes of a command, and it has a url: leave memory out")
	case t.URL == "" && t.Remote:
		return errors.New("remote is for a url, and it has a command: leave remote out")
	case t.Parallel < 0:
		return fmt.Errorf("parallel is %d, but must be above 0", t.Parallel)
	}
	if t.URL != "" {
		if err := checkURL(t.URL, t.Remote); err != nil {
			return err
		}
	}
	t.limit()
	t.Idempotent = t.Idempotent || t.Pure
	if t.Definition == nil {
		return nil
	}
	var d struct {
		Type     string
		Function struct{ Name string }
	}
	if err := json.Unmarshal(t.Definition, &d); err != nil || d.Type != "function" {
		return errors.New("its definition is not of the form {\"type\": \"function\", \"function\": {...}}")
	}
	if d.Function.Name != name {
		return fmt.Errorf("its definition has the name %s: give it the same", visible.Quoted(d.Function.Name))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, t.Definition); err != nil {
		return err
	}
	t.Definition = compact.Bytes()
	return nil
}

// limit sets the limits that are left open.
func (t *Tool) limit() {
	if t.Timeout == 0 {
		t.Timeout = Duration(DefaultTimeout)
	}
	if t.MaxOutput == 0 {
		t.MaxOutput = DefaultOutput
	}
	if t.Parallel == 0 {
		t.Parallel = DefaultProcesses
		if t.URL != "" {
			t.Parallel = defaultRequests
		}
	}
}

// defaultRequests is how many calls of an endpoint are made at once.
const defaultRequests = 64

// checkURL refuses URLs that are not of this machine, unless others are allowed. What the name of a host stands for is
// checked when it is called.
func checkURL(text string, remote bool) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("its url %s is none of http:// or https://", visible.Quoted(text))
	}
	address := net.ParseIP(u.Hostname())
	if !remote && u.Hostname() != "localhost" && (address == nil || !address.IsLoopback()) {
		return fmt.Errorf("its url %s is not of this machine: give one at localhost, or \"remote\": true if calls may "+
			"go there", visible.Quoted(text))
	}
	return nil
}

// Definitions returns the tools as a JSON list in the form of OpenAI's API, sorted by name; "" if none has one.
func (r Registry) Definitions() string {
	var all []json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if d := r[name].Definition; d != nil {
			all = append(all, d)
		}
	}
	if all == nil {
		return ""
	}
	b, _ := json.Marshal(all) // they were read from JSON
	return string(b)
}

// identity returns the registry without what no result should depend on.
func (r Registry) identity() string {
	own := map[string]Tool{}
	for name, t := range r {
		one := *t
		one.Timeout, one.Memory, one.Parallel = 0, 0, 0
		own[name] = one
	}
	b, _ := json.Marshal(own)
	return string(b)
}
