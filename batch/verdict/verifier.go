package verdict

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/quire/quire/data/promptset/record"
)

// Completion is what a verifier judges.
type Completion struct {
	Row        *record.Row
	Generation int
	Text       string
	Part       string // what is judged of the text; see Settings.Extract
	found      bool   // there is such a part
}

// Verdict is what a verifier decided.
type Verdict struct {
	Accepted bool
	Text     string // what it says in addition
}

// Verifier judges completions. Its methods may be called from several goroutines.
type Verifier interface {
	// Verify judges a completion. An error reports that the verifier failed, not that the completion is wrong.
	Verify(ctx context.Context, c *Completion) (Verdict, error)
	Close() error
}

// all is a verifier that accepts what each of several accepts.
type all struct {
	extract   *regexp.Regexp // nil for the whole text
	verifiers []Verifier     // those that cost the least first
}

// New returns the verifier of a job with checked settings.
func New(s *Settings) (Verifier, error) {
	v := &all{}
	if s.Extract != "" {
		v.extract = regexp.MustCompile(s.Extract)
	}
	if s.Regex != "" {
		v.verifiers = append(v.verifiers, matches{regexp.MustCompile(s.Regex)})
	}
	if s.Equals != "" {
		v.verifiers = append(v.verifiers, equals{s.Equals})
	}
	if s.Schema != "" {
		schema, err := newSchema(s.Schema)
		if err != nil {
			return nil, err
		}
		v.verifiers = append(v.verifiers, schema)
	}
	if s.Command != "" {
		v.verifiers = append(v.verifiers, newCommand(s))
	}
	if s.Majority != 0 {
		v.verifiers = append(v.verifiers, answer{})
	}
	return v, nil
}

func (v *all) Verify(ctx context.Context, c *Completion) (verdict Verdict, err error) {
	c.Part, c.found = partOf(v.extract, c.Text)
	for _, one := range v.verifiers {
		if verdict, err = one.Verify(ctx, c); err != nil || !verdict.Accepted {
			return verdict, err
		}
	}
	return verdict, nil
}

func (v *all) Close() error {
	var err error
	for _, one := range v.verifiers {
		err = errors.Join(err, one.Close())
	}
	return err
}

// partOf returns the last match of a pattern, or its first group, without spaces around it. Without a pattern it is the
// whole text. found is false if the pattern does not match.
func partOf(pattern *regexp.Regexp, text string) (part string, found bool) {
	if pattern == nil {
		return strings.TrimSpace(text), true
	}
	matches := pattern.FindAllStringSubmatchIndex(text, -1)
	if len(matches) == 0 {
		return "", false
	}
	last := matches[len(matches)-1]
	from, to := last[0], last[1]
	if len(last) > 2 {
		from, to = last[2], last[3]
	}
	if from < 0 { // the group is in another alternative
		return "", true
	}
	return strings.TrimSpace(text[from:to]), true
}

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
