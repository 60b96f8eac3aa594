package grammar

import (
	"encoding/json"
	"fmt"

	"github.com/quire/quire/grammar/automaton"
	"github.com/quire/quire/grammar/jsontext"
	"github.com/quire/quire/grammar/schema"
)

// Part is a part of a text. It has one of its fields.
type Part struct {
	Text    string          `json:"text,omitempty"`    // this very text
	Schema  json.RawMessage `json:"schema,omitempty"`  // JSON of a schema
	Without []string        `json:"without,omitempty"` // any text that has none of these within it
	Choice  []string        `json:"choice,omitempty"`  // one of these texts
	Maybe   []Part          `json:"maybe,omitempty"`   // these parts, or nothing
}

// Alternatives compiles a JSON list of lists of parts, one of which is the completion.
func Alternatives(text []byte, o Options) (*Automaton, error) {
	var list [][]Part
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("parts of a text: %w", err)
	}
	p := jsontext.New(automaton.NewBuilder(), o.Whitespace)
	var all []automaton.Expr
	for _, parts := range list {
		e, err := sequence(p, parts, o)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	a, err := automaton.New(p.B, p.B.Alt(all...))
	if err != nil {
		return nil, fmt.Errorf("parts of a text: %w", err)
	}
	return a, nil
}

func sequence(p *jsontext.Parts, parts []Part, o Options) (automaton.Expr, error) {
	var all []automaton.Expr
	for _, part := range parts {
		e := p.B.Text(part.Text)
		var err error
		switch {
		case part.Schema != nil:
			e, err = schema.Compile(p, part.Schema, o.AnyOrder)
		case part.Without != nil:
			any := p.B.Repeat(p.B.Runes(0, '\U0010ffff'), 0, automaton.Unlimited)
			e = p.B.Lexeme(p.B.And(any, p.B.Not(p.B.Seq(any, p.B.Choice(part.Without...), any))))
		case part.Choice != nil:
			e = p.B.Choice(part.Choice...)
		case part.Maybe != nil:
			e, err = sequence(p, part.Maybe, o)
			e = p.B.Optional(e)
		}
		if err != nil {
			return 0, err
		}
		all = append(all, e)
	}
	return p.B.Seq(all...), nil
}
