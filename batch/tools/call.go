package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/visible"
)

// Call is a call of a tool in a turn of a row's completion.
type Call struct {
	Place
	ID        string // of the call, as the model's answer has it
	Name      string // of the tool
	Arguments string // JSON
	RowID     string
}

// Place is where a call stands in a job.
type Place struct {
	Row              int64
	Generation, Turn int
	Number           int // among the turn's calls
}

// Answer is what came of a call.
type Answer struct {
	Content string // for the model; of a tool that failed, what is wrong
	Failed  bool
}

// asked is the JSON that a tool gets.
type asked struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"`
	Row        string          `json:"row"`
	Generation int             `json:"generation"`
	Turn       int             `json:"turn"`
}

// question returns the JSON of a call.
func (c *Call) question() ([]byte, error) {
	arguments := json.RawMessage(c.Arguments)
	if c.Arguments == "" {
		arguments = json.RawMessage("{}")
	} else if !json.Valid(arguments) { // the tool may know what to do with it
		arguments, _ = json.Marshal(c.Arguments)
	}
	return json.Marshal(asked{c.ID, c.Name, arguments, c.RowID, c.Generation, c.Turn})
}

// contentOf returns what a tool answered, for the model: JSON that is a text stands for that text, and all else is
// taken as it is.
func contentOf(answer []byte) (string, error) {
	text := string(answer)
	var decoded *string
	if json.Unmarshal(answer, &decoded) == nil && decoded != nil { // null is no text
		text = *decoded
	}
	if !utf8.ValidString(text) {
		return "", errors.New("gave an answer that is not UTF-8")
	}
	return text, nil
}

// failed begins the answer of a tool that failed.
const failed = "Error: "

// failedTool begins the answer of a tool that failed and that there is.
const failedTool = failed + "the tool "

// failure is the answer of a tool that failed.
func failure(err error) Answer { return Answer{failedTool + visible.Line(err.Error()), true} }

// IsFailure reports whether an answer is that of a tool that failed, or looks like one.
func IsFailure(content string) bool { return strings.HasPrefix(content, failedTool) }

// unknown is the answer to a call of a tool that there is not.
func unknown(name string, names []string) Answer {
	return Answer{fmt.Sprintf(failed+"there is no tool %s; the tools are %s", visible.Quoted(visible.Cut(name)),
		strings.Join(names, ", ")), true}
}

// CallError is why a call ends its completion: the row has it as its error.
type CallError struct{ error }

func (e *CallError) Unwrap() error { return e.error }

// interrupted is the error of a call that was under way when a process died, and may not be made again.
func interrupted(name string) error {
	return &CallError{setting.Errorf("a call of the tool %s was under way when the job was interrupted, and is not "+
		"made again, since the tool is not declared idempotent: see what the call did; `retry-errors` starts the row "+
		"over",
		visible.Quoted(name))}
}
