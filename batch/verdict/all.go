package verdict

import (
	"context"
	"errors"
	"regexp"
)

// all is a verifier that accepts what each of several accepts.
type all struct {
	extract   *regexp.Regexp // nil for the whole text
	verifiers []Verifier     // those that cost the least first
}

// New returns the verifier of a job with checked settings. costly are asked last.
func New(s *Settings, costly ...Verifier) (Verifier, error) {
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
	v.verifiers = append(v.verifiers, costly...)
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
