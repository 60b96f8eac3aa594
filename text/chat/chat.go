// Package chat turns the messages of a conversation into the text that a model was tuned on, with the model's own
// Jinja chat template.
//
// Templates render as in transformers' apply_chat_template: with its Jinja settings, its raise_exception,
// strftime_now and tojson, and its generation tag. Templates come with model files and are untrusted: they load
// nothing, and their output, memory and time are bounded.
package chat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/text/chat/jinja"
)

// Options are what a template receives in addition to the messages.
type Options struct {
	// AddGenerationPrompt ends the text where the model's answer starts.
	AddGenerationPrompt bool
	// ContinueFinalMessage ends the text with the last message, for the model to continue it.
	ContinueFinalMessage bool
	// Tools and Documents are JSON lists, Variables is a JSON object of further variables; each may be empty. It is an
	// error if the template has no such variable.
	Tools, Documents, Variables string
	// Special are the texts of special tokens by the names of the template's variables: bos_token, eos_token,
	// pad_token and others, and the model's own. Variables take precedence over them.
	Special map[string]string
	// ReasoningEffort is the variable reasoning_effort and overrides one in Variables; empty for none.
	ReasoningEffort string
}

// limits bounds one Render, far above what any conversation needs.
var limits = jinja.Limits{Output: 64 << 20, Memory: 1 << 30, Time: 10 * time.Second}

// ErrLimit is wrapped by the error of a template that exceeds the limits on output (64 MiB), memory (1 GiB in all) or
// time (10 s).
var ErrLimit = jinja.ErrLimit

// RaisedError is a template's own objection to the messages, such as roles that do not alternate.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string {
	return "the chat template refuses these messages: " + e.Message
}

// Template is a parsed chat template, safe for concurrent use.
type Template struct {
	t       *jinja.Template
	manners func() manners
	words   map[string]bool // names in the source
}

// Parse parses a chat template.
func Parse(source string) (*Template, error) {
	if strings.TrimSpace(source) == "" {
		return nil, errors.New("the chat template is empty")
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	template := &Template{t: t, words: map[string]bool{}}
	for _, word := range word.FindAllString(source, -1) {
		template.words[word] = true
	}
	template.manners = sync.OnceValue(template.learn)
	return template, nil
}

var word = regexp.MustCompile(`[\pL_][\pL\pN_]*`)

// mentions reports whether the template has a name.
func (t *Template) mentions(name string) bool { return t.words[name] }

// now is the clock that strftime_now reads.
var now = time.Now

var functions = map[string]any{
	"strftime_now": &jinja.Func{Name: "strftime_now", Call: func(args []any, _ *jinja.Dict) (any, error) {
		if len(args) == 1 {
			if format, ok := args[0].(string); ok {
				return strftime(now(), format)
			}
		}
		return nil, errors.New("strftime_now takes a format")
	}},
}

// Render returns the text of messages. Its error is a *RaisedError if the template itself rejects them.
func (t *Template) Render(messages []Message, o Options) (string, error) {
	if o.AddGenerationPrompt && o.ContinueFinalMessage {
		return "", errors.New("add_generation_prompt and continue_final_message contradict each other; keep one")
	}
	list, err := t.list(messages)
	if err != nil {
		return "", err
	}
	final := ""
	if o.ContinueFinalMessage {
		if final, err = mark(list); err != nil {
			return "", err
		}
	}
	vars, err := t.vars(list, o)
	if err != nil {
		return "", err
	}
	text, err := t.t.Render(vars, limits)
	var raised *jinja.RaisedError
	switch {
	case errors.As(err, &raised):
		return "", &RaisedError{raised.Message}
	case err != nil:
		return "", fmt.Errorf("chat template: %w", err)
	case o.ContinueFinalMessage:
		return cut(text, final)
	}
	return text, nil
}

// parameters are the variables of templates that belong to no other option, with the option that sets them.
var parameters = []string{"messages", "tools", "add_generation_prompt", "continue_final_message"}

// vars returns the variables for a template.
func (t *Template) vars(messages any, o Options) (map[string]any, error) {
	vars := map[string]any{"messages": messages, "tools": nil, "documents": nil,
		"add_generation_prompt": o.AddGenerationPrompt}
	for name, f := range functions {
		vars[name] = f
	}
	for name, text := range o.Special {
		if _, taken := vars[name]; !taken {
			vars[name] = text
		}
	}
	for name, text := range map[string]string{"tools": o.Tools, "documents": o.Documents} {
		if text == "" {
			continue
		}
		list, err := value([]byte(text))
		if _, ok := list.(*jinja.List); err != nil || !ok {
			return nil, wrong(name, "is not a JSON list")
		}
		if vars[name] = list; !t.mentions(name) {
			return nil, fmt.Errorf("the chat template takes no %s; leave %[1]s out, or give --chat-template one that "+
				"does", name)
		}
	}
	if err := t.further(vars, o.Variables); err != nil {
		return nil, err
	}
	if o.ReasoningEffort != "" && !t.mentions(effortVariable) {
		return nil, fmt.Errorf("%s is %q, and the chat template has no variable for it; leave it out", effortVariable,
			o.ReasoningEffort)
	}
	if o.ReasoningEffort != "" {
		vars[effortVariable] = o.ReasoningEffort
	}
	return vars, nil
}

// wrong is the error for what is wrong with a parameter.
func wrong(name, format string, args ...any) error {
	return &parameter.FormError{Field: name, Err: fmt.Errorf(format, args...)}
}

const effortVariable = "reasoning_effort"

// further adds the variables of a JSON object.
func (t *Template) further(vars map[string]any, text string) error {
	if text == "" {
		return nil
	}
	v, err := value([]byte(text))
	object, ok := v.(*jinja.Dict)
	if err != nil || !ok {
		return wrong("chat_template_kwargs", "is not a JSON object")
	}
	for k, v := range object.All() {
		name, _ := k.(string)
		switch {
		case slices.Contains(parameters, name):
			return wrong("chat_template_kwargs", "has %s, which is a parameter of its own: give it as such", name)
		case !t.mentions(name):
			return wrong("chat_template_kwargs", "has %s, which the chat template has no variable for; leave it out",
				name)
		}
		vars[name] = v
	}
	return nil
}
