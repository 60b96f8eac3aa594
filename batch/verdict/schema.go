package verdict

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// schema accepts texts that are JSON of a schema, in any order of keys.
type schema struct{ schema *jsonschema.Schema }

// ownFiles loads nothing: a schema that names other files would depend on them, and could read any.
type ownFiles struct{}

func (ownFiles) Load(url string) (any, error) {
	if strings.HasPrefix(url, "http://json-schema.org/") || strings.HasPrefix(url, "https://json-schema.org/") {
		return nil, errors.New("its $schema is a version of JSON Schema that is not supported: give draft 4, 6, 7, " +
			"2019-09 or 2020-12, or leave $schema out")
	}
	return nil, fmt.Errorf("it names another schema, %s; put that below $defs", url)
}

func newSchema(text string) (schema, error) {
	const name = "quire:schema"
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return schema{}, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(ownFiles{})
	c.AssertFormat()
	if err := c.AddResource(name, document); err != nil {
		return schema{}, err
	}
	compiled, err := c.Compile(name)
	return schema{compiled}, err
}

// largeExponent is an exponent with which a number of few bytes takes gigabytes to compare.
var largeExponent = regexp.MustCompile(`\d[eE][+-]?0*[1-9]\d{4}`)

func (s schema) Verify(_ context.Context, c *Completion) (Verdict, error) {
	switch {
	case !c.found:
		return Verdict{Text: "there is no part to extract"}, nil
	case largeExponent.MatchString(c.Part):
		return Verdict{Text: "a number has a very large exponent"}, nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.Part))
	if err != nil {
		return Verdict{Text: "not JSON: " + err.Error()}, nil
	}
	err = s.schema.Validate(value)
	wrong := (*jsonschema.ValidationError)(nil)
	switch {
	case err == nil:
		return Verdict{Accepted: true}, nil
	case errors.As(err, &wrong):
		return Verdict{Text: firstCause(wrong)}, nil
	}
	return Verdict{}, err
}

func (schema) Close() error { return nil }

// firstCause returns one line about the first thing that is wrong, with its place in the value.
func firstCause(e *jsonschema.ValidationError) string {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	place := "/" + strings.Join(e.InstanceLocation, "/")
	return "at " + place + ": " + e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}
