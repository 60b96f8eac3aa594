package grammar

import (
	"encoding/json"
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
	"github.com/quire/quire/text/grammar/schema"
)

// Part is a part of a text. It has one of its fields.
type Part struct {
	Text    string          `json:"text,omitempty"`    // this very text
	Schema  json.RawMessage `json:"schema,omitempty"`  // JSON of a schema
	Python  bool            `json:"python,omitempty"`  // it is written as Python writes it
	Without []string        `json:"without,omitempty"` // any text that contains none of these
	Choice  []string        `json:"choice,omitempty"`  // one of these texts
	Maybe   []Part          `json:"maybe,omitempty"`   // these parts, or nothing
	Any     [][]Part        `json:"any,omitempty"`     // one of these lists of parts
	Members *Members        `json:"members,omitempty"`
}

// Members are parts with a separator between two: the parts of the list in its order, and then any number of More.
type Members struct {
	Separator string   `json:"separator"`
	List      []Member `json:"list,omitempty"`
	More      []Part   `json:"more,omitempty"`
	Min       int      `json:"min,omitempty"`
	Max       *int     `json:"max,omitempty"`
}

// Member is one of a list.
type Member struct {
	Parts    []Part `json:"parts"`
	Required bool   `json:"required,omitempty"`
}

// Alternatives compiles a JSON list of lists of parts. A completion is one of the lists.
func Alternatives(text []byte, o Options) (*Automaton, error) {
	var list [][]Part
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("parts of a text: %w", err)
	}
	p := jsontext.New(automaton.NewBuilder(), o.Whitespace)
	e, err := anyOf(p, list, o)
	if err != nil {
		return nil, err
	}
	a, err := automaton.New(p.B, e)
	if err != nil {
		return nil, fmt.Errorf("parts of a text: %w", err)
	}
	return a, nil
}

func anyOf(p *jsontext.Parts, list [][]Part, o Options) (automaton.Expr, error) {
	var all []automaton.Expr
	for _, parts := range list {
		e, err := sequence(p, parts, o)
		if err != nil {
			return 0, err
		}
		all = append(all, e)
	}
	return p.B.Alt(all...), nil
}

func sequence(p *jsontext.Parts, parts []Part, o Options) (automaton.Expr, error) {
	var all []automaton.Expr
	for _, part := range parts {
		e := p.B.Text(part.Text)
		var err error
		switch {
		case part.Schema != nil:
			syntax := p
			if part.Python {
				syntax = jsontext.Python(p.B, o.Whitespace)
			}
			e, err = schema.Compile(syntax, part.Schema, o.Schema)
		case part.Members != nil:
			e, err = members(p, part.Members, o)
		case part.Without != nil:
			any := p.B.Repeat(p.B.Runes(0, '\U0010ffff'), 0, automaton.Unlimited)
			e = p.B.Lexeme(p.B.And(any, p.B.Not(p.B.Seq(any, p.B.Choice(part.Without...), any))))
		case part.Choice != nil:
			e = p.B.Choice(part.Choice...)
		case part.Any != nil:
			e, err = anyOf(p, part.Any, o)
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

func members(p *jsontext.Parts, spec *Members, o Options) (automaton.Expr, error) {
	m := automaton.Members{Separator: p.B.Text(spec.Separator), Min: spec.Min, Max: automaton.Unlimited}
	if spec.Max != nil {
		if *spec.Max < 0 {
			return 0, fmt.Errorf("members of a text: at most %d of them", *spec.Max)
		}
		m.Max = *spec.Max
	}
	for _, member := range spec.List {
		e, err := sequence(p, member.Parts, o)
		if err != nil {
			return 0, err
		}
		m.List = append(m.List, automaton.Member{Variants: automaton.One(e), Required: member.Required})
	}
	if spec.More != nil {
		e, err := sequence(p, spec.More, o)
		if err != nil {
			return 0, err
		}
		m.More = automaton.One(e)
	}
	return p.B.Members(m), nil
}
