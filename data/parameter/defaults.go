package parameter

import (
	"fmt"
	"reflect"
	"strings"
)

// Defaults returns the parameters of a row if neither the row nor the job sets any.
func Defaults() Set {
	var s Set
	for p := range Own() {
		p.slot.reset(&s)
	}
	return s
}

// Default returns the default of one of Quire's own parameters as a flag shows it, "none" if it is empty.
func (p *Parameter) Default() string {
	s := Defaults()
	v := p.slot.get(&s)
	if !p.limits.allow(v) {
		return "none"
	}
	if _, ok := v.(Structure); ok {
		return "any text"
	}
	if list, ok := v.([]string); ok {
		if len(list) == 0 {
			return "none"
		}
		return strings.Trim(fmt.Sprintf("%q", list), "[]")
	}
	text := fmt.Sprint(v)
	if text == "" || text == "[]" || text == "map[]" {
		return "none"
	}
	return text
}

// Identity returns the parameters of a job as job.json has them, by name.
func (s *Set) Identity() map[string]any {
	initial := Defaults()
	settings := map[string]any{}
	for p := range Own() {
		v := p.slot.get(s)
		if p.InEveryJob || p.Flag != "" && !reflect.DeepEqual(v, p.slot.get(&initial)) {
			settings[p.Name] = v
		}
	}
	return settings
}

// PromptIdentity is Identity for a job that generates nothing: the number of results, and the parameters of prompts.
func (s *Set) PromptIdentity() map[string]any {
	settings := s.Identity()
	for p := range Own() {
		if !p.OfPrompt() && p.Name != "n" {
			delete(settings, p.Name)
		}
	}
	return settings
}
