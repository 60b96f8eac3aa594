package verdict

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quire/quire/batch/coprocess"
	"github.com/quire/quire/internal/visible"
)

// maxVerdict bounds what a command says about one completion, in bytes.
const maxVerdict = 1 << 20

// command asks the processes of a shell command. A process gets one line of JSON for a completion, with the row's
// columns, and answers with one line: {"accepted": true}, with a "verdict" in words if it likes.
type command struct{ processes *coprocess.Pool }

func newCommand(s *Settings) *command {
	return &command{coprocess.New(coprocess.Options{Command: s.Command,
		Processes: s.AtOnce(), Timeout: cmp.Or(s.Timeout, DefaultTimeout),
		MaxAnswer: maxVerdict, Attempts: 2})}
}

// asked is the line that a process gets.
type asked struct {
	ID         string          `json:"id"`
	Generation int             `json:"generation"`
	Text       string          `json:"text"`
	Extracted  *string         `json:"extracted,omitempty"`
	Messages   json.RawMessage `json:"messages,omitempty"` // of a completion that calls tools
	Row        json.RawMessage `json:"row"`                // the row's columns
}

// answered is the line that it writes.
type answered struct {
	Accepted json.RawMessage `json:"accepted"`
	Verdict  json.RawMessage `json:"verdict"` // text, or any other JSON
	Error    string          `json:"error"`   // why there is no verdict
}

func (v *command) Verify(ctx context.Context, c *Completion) (Verdict, error) {
	line, err := questionOf(c)
	if err != nil {
		return Verdict{}, err
	}
	answer, err := v.processes.Ask(ctx, line)
	if err != nil {
		return Verdict{}, fmt.Errorf("the verifier %w", err)
	}
	return verdictOf(answer)
}

func verdictOf(answer []byte) (Verdict, error) {
	var a answered
	err := json.Unmarshal(answer, &a)
	said := visible.Quoted(visible.Cut(string(answer)))
	wrongType := (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &wrongType):
		return Verdict{}, fmt.Errorf("the verifier answered %s: it must be a JSON object, such as {\"accepted\": "+
			"true}, and an \"error\" in it must be text", said)
	case err != nil:
		return Verdict{}, fmt.Errorf("the verifier answered %s, which is no JSON object of \"accepted\": %w", said, err)
	case a.Error != "":
		return Verdict{}, errors.New("the verifier says: " + visible.Line(a.Error))
	case a.Accepted == nil || string(a.Accepted) == "null":
		return Verdict{}, fmt.Errorf("the verifier answered %s, and \"accepted\" is missing there: true or false", said)
	case string(a.Accepted) != "true" && string(a.Accepted) != "false":
		return Verdict{}, fmt.Errorf("the verifier answered %s, but \"accepted\" must be true or false", said)
	}
	v := Verdict{Accepted: string(a.Accepted) == "true"}
	if json.Unmarshal(a.Verdict, &v.Text) != nil { // no text: a number, or an object
		v.Text = string(a.Verdict)
	}
	return v, nil
}

func questionOf(c *Completion) ([]byte, error) {
	q := asked{ID: c.Row.ID, Generation: c.Generation, Text: c.Text, Messages: json.RawMessage(c.Messages),
		Row: json.RawMessage("{}")}
	if c.found && c.Part != c.Text {
		q.Extracted = &c.Part
	}
	if c.Row.Source != nil {
		object := c.Row.Source.AppendJSON([]byte{'{'}, func(column string) (string, bool) { return column, true })
		q.Row = append(object, '}')
	}
	return json.Marshal(q)
}

func (v *command) Close() error { return v.processes.Close() }
