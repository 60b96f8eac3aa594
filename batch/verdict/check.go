package verdict

import (
	"math"
	"regexp"
)

// Check checks the settings. invalid makes the error about a field.
func (s *Settings) Check(invalid func(field, format string, args ...any) error) error {
	for _, r := range []struct{ field, text string }{{"accept-regex", s.Regex}, {"extract", s.Extract}} {
		if _, err := regexp.Compile(r.text); err != nil {
			return invalid(r.field, "is no regular expression: %v", err)
		}
	}
	if s.Schema != "" {
		if _, err := newSchema(s.Schema); err != nil {
			return invalid("accept-schema", "is no JSON schema that can be checked: %v", err)
		}
	}
	const judges = "`accept-regex`, `accept-schema`, `accept-equals`, `accept-command` or `accept-score`"
	switch {
	case s.Until < 0:
		return invalid("until", "is %d, but must be at least 1", s.Until)
	case s.Until > 0 && !s.Verifies():
		return invalid("until", "is %d, and nothing accepts completions: give "+judges, s.Until)
	case s.Majority != 0 && !(s.Majority > 0.5 && s.Majority < 1):
		return invalid("until-majority", "is %v, but must be above 0.5 and below 1", s.Majority)
	case s.Majority != 0 && (s.Until > 0 || s.Verifies()):
		return invalid("until-majority", "may not come with `until`, nor with "+judges+": completions vote, and none "+
			"is accepted by itself")
	case s.Extract != "" && s.Equals == "" && s.Schema == "" && s.Regex == "" && s.Majority == 0:
		return invalid("extract", "takes out the part of a text that is compared, and nothing compares one: give "+
			"`accept-equals`, `accept-schema`, `accept-regex` or `until-majority`, or leave it out")
	case s.Above != 0 && s.Score == "":
		return invalid("accept-above", "is %v, and there is no `accept-score`: leave it out", s.Above)
	case math.IsNaN(s.Above) || math.IsInf(s.Above, 0):
		return invalid("accept-above", "is %v, but must be a number", s.Above)
	case s.Processes < 0:
		return invalid("accept-processes", "is %d, but must be at least 1", s.Processes)
	case s.Processes > 0 && s.Command == "":
		return invalid("accept-processes", "is given, and there is no `accept-command`: leave it out")
	case s.Timeout < 0:
		return invalid("accept-timeout", "is %v, but must be above 0", s.Timeout)
	case s.Timeout > 0 && s.Command == "":
		return invalid("accept-timeout", "is given, and there is no `accept-command`: leave it out")
	}
	return nil
}
