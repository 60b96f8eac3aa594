package verdict

import (
	"cmp"
	"context"
	"regexp"
)

// matches accepts what a regular expression matches somewhere.
type matches struct{ pattern *regexp.Regexp }

func (m matches) Verify(_ context.Context, c *Completion) (Verdict, error) {
	if !c.found {
		return Verdict{}, nil
	}
	match := m.pattern.FindStringSubmatch(c.Part)
	if match == nil {
		return Verdict{}, nil
	}
	said := match[0]
	if len(match) > 1 {
		said = cmp.Or(match[1], said)
	}
	return Verdict{true, said}, nil
}

func (matches) Close() error { return nil }

// answer accepts all, and says what a completion votes for.
type answer struct{}

func (answer) Verify(_ context.Context, c *Completion) (Verdict, error) {
	return Verdict{true, c.Part}, nil
}

func (answer) Close() error { return nil }
