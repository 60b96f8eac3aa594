package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
)

// fakeCalling has a model whose file says so call tools. Its prompts may be longer than those of others.
func fakeCalling(o *spec.Job, s *process.Session, e *fakeEngine) {
	if b, err := os.ReadFile(o.Model); err == nil && strings.Contains(string(b), "calls tools") {
		e.calls, e.longest = true, 4000
		s.Template = "<tool_call> arguments </tool_call>"
	}
}

// wantedCalls is what a prompt says about the calls that it wants: in so many turns, so many in each, of which tool.
var wantedCalls = regexp.MustCompile(`calls:(\d+)(?:x(\d+))?(?: of ([a-z]+))?`)

// fakeCalls are the calls that the next turn after a prompt makes; "" for none.
func fakeCalls(prompt string, generation int) (text string) {
	m := wantedCalls.FindStringSubmatch(prompt)
	if m == nil {
		return ""
	}
	turns, _ := strconv.Atoi(m[1])
	each, _ := strconv.Atoi(m[2])
	each = max(each, 1)
	name := m[3]
	if name == "" {
		name = "count"
	}
	answers := strings.Count(prompt, `"role":"tool"`)
	if answers/each >= turns {
		return ""
	}
	for i := range each {
		text += fmt.Sprintf(`<tool_call>{"name": "%s", "arguments": {"n": %d, "generation": %d}}</tool_call>`, name,
			answers+i, generation)
	}
	return text
}
