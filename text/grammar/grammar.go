// Package grammar compiles what a completion must look like (choices, regular expressions, JSON schemas, GBNF) to byte
// automata whose states are made as they are needed, and computes which tokens may come next in a state.
package grammar

import (
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/gbnf"
	"github.com/quire/quire/text/grammar/jsontext"
	"github.com/quire/quire/text/grammar/regex"
	"github.com/quire/quire/text/grammar/schema"
)

// These are package automaton's.
type (
	// Automaton is a compiled grammar. It serves one goroutine at a time.
	Automaton = automaton.Automaton
	// State is a state of an automaton. States are numbered from 0 in the order in which they are first reached.
	State = automaton.State
	// Memory is how much an automaton has taken.
	Memory = automaton.Memory
	// Vocabulary is the texts of a model's tokens. It serves any number of goroutines.
	Vocabulary = automaton.Vocabulary
)

// Dead is the state after a byte that is not allowed.
const Dead = automaton.Dead

// NewVocabulary makes a vocabulary. The text of token i is texts[i], raw bytes; special tokens have none. Tokens of
// ends end the sequence.
func NewVocabulary(texts [][]byte, ends []int32) *Vocabulary {
	return automaton.NewVocabulary(texts, ends)
}

// Choices compiles a list of texts. A completion is one of them.
func Choices(texts []string) (*Automaton, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("a choice needs at least one text")
	}
	b := automaton.NewBuilder()
	return automaton.New(b, b.Choice(texts...))
}

// Regex compiles a regular expression of RE2's syntax, which the completion matches as a whole.
func Regex(pattern string) (*Automaton, error) {
	b := automaton.NewBuilder()
	e, err := regex.Whole(b, pattern)
	if err != nil {
		return nil, err
	}
	a, err := automaton.New(b, b.Lexeme(e))
	if err != nil {
		return nil, fmt.Errorf("regular expression %.100q: %w", pattern, err)
	}
	return a, nil
}

// GBNF compiles a grammar of llama.cpp's syntax; the completion is a text of its rule root. As there, a rule that
// begins with itself is an error.
func GBNF(text string) (*Automaton, error) {
	b := automaton.NewBuilder()
	e, err := gbnf.Compile(b, text)
	if err != nil {
		return nil, err
	}
	a, err := automaton.New(b, e)
	if err != nil {
		return nil, fmt.Errorf("grammar: %w", err)
	}
	return a, nil
}

// Options control the white space of JSON and the compiling of schemas.
type Options struct {
	Whitespace jsontext.Whitespace // between the parts of the text
	Schema     schema.Options
}

// JSONSchema compiles a JSON schema of draft 2020-12, or of the draft that its $schema names. It fails if the schema
// can't be compiled exactly, with an error that names the keyword and its place.
func JSONSchema(text []byte, o Options) (*Automaton, error) {
	p := jsontext.New(automaton.NewBuilder(), o.Whitespace)
	e, err := schema.Compile(p, text, o.Schema)
	if err != nil {
		return nil, err
	}
	a, err := automaton.New(p.B, e)
	if err != nil {
		return nil, fmt.Errorf("JSON schema: %w", err)
	}
	return a, nil
}

// JSONObject compiles objects of any members, which OpenAI calls json_object.
func JSONObject(o Options) (*Automaton, error) {
	p := jsontext.New(automaton.NewBuilder(), o.Whitespace)
	return automaton.New(p.B, p.AnyObject())
}

// JSONValue compiles JSON of any kind.
func JSONValue(o Options) (*Automaton, error) {
	p := jsontext.New(automaton.NewBuilder(), o.Whitespace)
	return automaton.New(p.B, p.Value())
}
