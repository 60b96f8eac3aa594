// Package chat turns the messages of a conversation into the text that a model was tuned on, by the model's own Jinja
// chat template.
//
// Templates render as in transformers' apply_chat_template: with its Jinja settings, its raise_exception, strftime_now
// and tojson, and its generation tag. Templates come with model files and are untrusted: they load nothing, and their
// output, memory and time are bounded.
package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quire/quire/chat/jinja"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Options are what a template can see besides the messages.
type Options struct {
	// AddGenerationPrompt ends the text where the model's answer begins.
	AddGenerationPrompt bool
	// BOS and EOS are the texts of those special tokens, bos_token and eos_token
	// to the template; "" leaves the name undefined, as for a tokenizer without.
	BOS, EOS string
}

// limits of one Render: far above what any conversation needs.
var limits = jinja.Limits{Output: 64 << 20, Memory: 1 << 30, Time: 10 * time.Second}

// ErrLimit is wrapped by the error of a template that exceeds the limits on
// output (64 MiB), memory (1 GiB in all) or time (10 s).
var ErrLimit = jinja.ErrLimit

// RaisedError is a template's own objection to the messages, such as roles that
// do not alternate.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string {
	return "the chat template refuses these messages: " + e.Message
}

// Template is a parsed chat template, safe for concurrent use.
type Template struct{ t *jinja.Template }

// Parse reads a chat template.
func Parse(source string) (*Template, error) {
	if strings.TrimSpace(source) == "" {
		return nil, errors.New("the chat template is empty")
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return &Template{t}, nil
}

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

// Render returns the text of messages. Its error is a *RaisedError where the
// template itself refuses them.
func (t *Template) Render(messages []Message, o Options) (string, error) {
	list := &jinja.List{Items: make([]any, len(messages))}
	for i, m := range messages {
		list.Items[i] = jinja.NewDict("role", m.Role, "content", m.Content)
	}
	vars := map[string]any{"messages": list, "tools": nil, "documents": nil,
		"add_generation_prompt": o.AddGenerationPrompt}
	for name, f := range functions {
		vars[name] = f
	}
	if o.BOS != "" {
		vars["bos_token"] = o.BOS
	}
	if o.EOS != "" {
		vars["eos_token"] = o.EOS
	}
	text, err := t.t.Render(vars, limits)
	var raised *jinja.RaisedError
	switch {
	case errors.As(err, &raised):
		return "", &RaisedError{raised.Message}
	case err != nil:
		return "", fmt.Errorf("chat template: %w", err)
	}
	return text, nil
}
