// Package chat turns the messages of a conversation into the one text a model
// was tuned on, by the model's own Jinja chat template.
//
// Templates render as in transformers' apply_chat_template: trim_blocks and
// lstrip_blocks are on, the generation tag, raise_exception, strftime_now and
// tojson are there. They come with model files, so nothing in them reaches the
// machine: no files, no includes, and bounds on output and time.
package chat

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
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

// Bounds of one Render.
const (
	MaxOutput = 64 << 20 // bytes
	MaxTime   = 10 * time.Second
)

// ErrLimit is wrapped by the error of a template that exceeds MaxOutput or
// MaxTime.
var ErrLimit = errors.New("chat template exceeds its limits")

// RaisedError is a template's own objection to the messages, such as roles that
// do not alternate.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string {
	return "the chat template refuses these messages: " + e.Message
}

// Template is a parsed chat template, safe for concurrent use.
type Template struct {
	t *exec.Template
}

// Parse reads a Jinja template.
func Parse(source string) (t *Template, err error) {
	defer recovered(&err)
	const name = "/chat_template"
	if strings.TrimSpace(source) == "" {
		return nil, errors.New("the chat template is empty")
	}
	empty, err := loaders.NewMemoryLoader(nil)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	loader, err := loaders.NewShiftedLoader(name, bytes.NewReader([]byte(source)), empty)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	parsed, err := exec.NewTemplate(name, jinjaConfig(), loader, environment())
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil { // the outer one repeats the whole source
			err = inner
		}
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return &Template{parsed}, nil
}

// recovered turns a panic of the template engine into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("chat template: the template engine failed: %v", p)
	}
}

// Render returns the text of messages. Its error is a *RaisedError where the
// template itself refuses them.
func (t *Template) Render(messages []Message, o Options) (text string, err error) {
	defer recovered(&err)
	list := make([]any, len(messages))
	for i, m := range messages {
		list[i] = map[string]any{"role": m.Role, "content": m.Content}
	}
	run := &rendering{deadline: time.Now().Add(MaxTime)}
	vars := map[string]any{
		renderingVar:            run,
		"messages":              list,
		"tools":                 nil,
		"documents":             nil,
		"add_generation_prompt": o.AddGenerationPrompt,
		"raise_exception":       run.raise,
	}
	if o.BOS != "" {
		vars["bos_token"] = o.BOS
	}
	if o.EOS != "" {
		vars["eos_token"] = o.EOS
	}
	err = t.t.Execute(run, exec.NewContext(vars))
	switch {
	case run.failed != nil:
		return "", run.failed
	case err != nil:
		return "", fmt.Errorf("chat template: %w", err)
	}
	return run.out.String(), nil
}

// rendering is the state of one Render: what it wrote and what stopped it.
type rendering struct {
	out      strings.Builder
	deadline time.Time
	failed   error
}

// renderingVar holds the *rendering in a template's variables, under a name
// that no template can spell.
const renderingVar = "\x00rendering"

// Write takes output, within the limits.
func (r *rendering) Write(p []byte) (int, error) {
	if r.out.Len()+len(p) > MaxOutput {
		r.failed = fmt.Errorf("%w: more than %d bytes of text", ErrLimit, MaxOutput)
		return 0, r.failed
	}
	if err := r.check(); err != nil {
		return 0, err
	}
	return r.out.Write(p)
}

// check stops a rendering that takes too long or has failed.
func (r *rendering) check() error {
	if r.failed == nil && time.Now().After(r.deadline) {
		r.failed = fmt.Errorf("%w: more than %v", ErrLimit, MaxTime)
	}
	return r.failed
}

func (r *rendering) raise(_ *exec.Evaluator, args *exec.VarArgs) (string, error) {
	if r.failed == nil {
		r.failed = &RaisedError{args.First().String()}
	}
	return "", r.failed
}
