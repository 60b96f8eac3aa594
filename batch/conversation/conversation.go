// Package conversation follows completions that call tools: what the model's next turn continues, and what comes of all
// turns together.
//
// A turn is what a row with a parent would be: its prompt is that of the turn before with the generated tokens, as
// they are, and what the chat template writes for the results of the tools.
package conversation

import (
	"fmt"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/text/chat/reply"
)

// Tools are what conversations of a unit call.
type Tools struct {
	*tools.Calls
	Settings *tools.Settings
}

// Conversation is a completion of a row, with the turns so far. One goroutine at a time uses it.
type Conversation struct {
	tools      *Tools
	row        *promptset.Row
	generation int
	turns      []turn
	err        error // why its calls ended it
}

// turn is a turn of the model, and the calls that it makes.
type turn struct {
	prompt []int32
	result completion.Result
	calls  []call
	left   int // calls without an answer
}

// call is a call, how far it came before, and its answer.
type call struct {
	tools.Call
	state    tools.State
	answer   tools.Answer
	answered bool
}

// Open returns a completion of a row, with what the log has of its turns. first is the request of the row's prompt.
// With again, one that its calls had ended is started over. An error reports that the log can't be read.
func (t *Tools) Open(b *ask.Builder, row *promptset.Row, generation int, first *engine.Request, again bool) (
	*Conversation, error) {
	c := &Conversation{tools: t, row: row, generation: generation}
	history, err := t.HistoryOf(row.Index, generation)
	if err != nil || history.Failed && again {
		return c, err
	}
	request := first
	for i := range history.Turns {
		past := &history.Turns[i]
		if i > 0 {
			if request, c.err = c.Next(b, first); c.err != nil {
				return c, nil
			}
		}
		if err := c.append(&past.Result, request.Tokens); err != nil {
			return nil, err
		}
		last := c.last()
		for k := range last.calls {
			one := &last.calls[k]
			if one.state = past.StateOf(k); one.state != tools.Finished {
				continue
			}
			if one.answer, err = t.Judge(&one.Call, past.Answers[k]); err != nil {
				c.err = err
			}
			one.answered = true
			last.left--
		}
	}
	return c, nil
}

func (c *Conversation) last() *turn { return &c.turns[len(c.turns)-1] }

// Generation is the number of the completion among the row's.
func (c *Conversation) Generation() int { return c.generation }

// IsNew reports whether the model had no turn yet.
func (c *Conversation) IsNew() bool { return len(c.turns) == 0 }

// Calls reports whether tools are to answer before the next turn.
func (c *Conversation) Calls() bool { return len(c.turns) > 0 && c.last().left > 0 }

// append adds a turn.
func (c *Conversation) append(r *completion.Result, prompt []int32) error {
	t := turn{prompt: prompt, result: *r}
	calls, err := reply.ParseCalls(r.ToolCalls)
	if err != nil {
		return err
	}
	for i, one := range calls {
		place := tools.Place{Row: c.row.Index, Generation: c.generation, Turn: len(c.turns), Number: i}
		t.calls = append(t.calls, call{Call: tools.Call{Place: place, ID: one.ID, Name: one.Name,
			Arguments: one.Arguments, RowID: c.row.ID}})
	}
	t.left = len(t.calls)
	c.turns = append(c.turns, t)
	return nil
}

// Take adds a turn that the model generated. It reports whether more follow: the turn calls tools, which may be called.
// The turn is logged then, since its calls are to be made once.
func (c *Conversation) Take(r *completion.Result, prompt []int32) (more bool, err error) {
	if err := c.append(r, prompt); err != nil {
		return false, err
	}
	last := c.last()
	if r.FinishReason != finishCalls || len(c.turns) >= c.tools.Settings.Turns() || len(last.calls) == 0 {
		return false, nil
	}
	return true, c.tools.Turn(last.calls[0].Place, r)
}

// finishCalls is why a turn ended that calls tools and was not truncated.
const finishCalls = "tool_calls"

// Call has the calls made that have no answer yet. Each answer, or the error that ends the completion, is told from
// another goroutine, with the number of its call.
func (c *Conversation) Call(tell func(number int, a tools.Answer, err error)) {
	for i := range c.last().calls {
		if one := &c.last().calls[i]; !one.answered {
			c.tools.Submit(one.Call, one.state,
				func(a tools.Answer, err error) { tell(i, a, err) })
		}
	}
}

// Answer takes the answer to a call of the last turn. It reports whether all have one.
func (c *Conversation) Answer(number int, a tools.Answer) (all bool) {
	one := &c.last().calls[number]
	one.answer, one.answered = a, true
	c.last().left--
	return c.last().left == 0
}

// Err is why a completion from the log has ended; nil if it continues.
func (c *Conversation) Err() error { return c.err }

// Fail notes that calls end the completion.
func (c *Conversation) Fail() error { return c.tools.Failed(c.last().calls[0].Place) }

// Next returns the request of the next turn, as a row with this parent has it. first is the request of the first one.
func (c *Conversation) Next(b *ask.Builder, first *engine.Request) (*engine.Request, error) {
	last := c.last()
	set := b.Parameters(c.row)
	set.N, set.Generation, set.Adapter = 1, c.generation, first.Adapter
	// The tokens so far stay, and the prompt was scored.
	set.TruncatePromptTokens, set.PromptLogprobs = 0, parameter.NoPromptLogprobs
	set.AddGenerationPrompt, set.ContinueFinalMessage = true, false
	if _, wanted := set.WantsCall(); wanted { // the first turn had it; with a call in each turn there would be no end
		set.ToolChoice = "auto"
	}
	own := *b
	own.Settings.Sampling, own.Settings.ServedModels = set, nil
	row := &promptset.Row{Index: c.row.Index, File: c.row.File, FileRow: c.row.FileRow, Line: c.row.Line,
		ID: TurnID(c.row.ID, len(c.turns)), Kind: promptset.KindMessages,
		Messages: append([]promptset.Message{last.message()}, last.results()...)}
	r := last.result
	r.Generation = c.generation
	requests, err := own.Requests(row, &lineage.Parent{Prompt: last.prompt, Results: []completion.Result{r}})
	if err != nil {
		return nil, fmt.Errorf("turn %d: %w", len(c.turns), err)
	}
	return requests[0], nil
}

// Naming is what a conversation depends on in addition to its first request, as a part of its name: what answers its
// calls, and what its later turns are made of.
func (t *Tools) Naming(b *ask.Builder, row *promptset.Row) string {
	set := b.Parameters(row)
	set.N, set.Generation, set.TopLogprobs, set.PromptLogprobs = 0, 0, 0, 0 // which the name has, or its extras
	return "conversation " + reuse.DigestOf(struct {
		settings tools.Settings
		template string
		longest  int
		set      parameter.Set
		messages []promptset.Message
	}{*t.Settings.Identity(), b.Text.Template, b.MaxModelLen(), set, row.Messages})
}

// TurnID returns the id by which a turn of a row is sampled: a row with this id and the turn before as its parent has
// the same tokens.
func TurnID(row string, turn int) string {
	if turn == 0 {
		return row
	}
	return fmt.Sprintf("%s/%d", row, turn)
}

// results returns the answers to the turn's calls as messages.
func (t *turn) results() (all []promptset.Message) {
	for i := range t.calls {
		one := &t.calls[i]
		object := marshal(toolMessage{Role: "tool", ToolCallID: one.ID, Name: one.Name, Content: one.answer.Content})
		all = append(all, promptset.Message{Role: "tool", Content: one.answer.Content, Object: string(object)})
	}
	return all
}

// errNoForm reports that calls can't be found in completions.
var errNoForm = outcome.Errorf(outcome.Misused, "completions are to call tools, and the chat template has no form of "+
	"tool calls that Quire knows: name one by `tool-call-parser`")

// Check returns why completions of a job can't call tools, if they are to: their form must be known.
func Check(j *spec.Job, template string) error {
	if !j.Tools.Used() {
		return nil
	}
	forms, err := reply.New(j.ReasoningParser, j.ToolCallParser, template)
	if err == nil && !forms.HasCalls() {
		err = errNoForm
	}
	return err
}

// CheckRow returns why a row can't call tools.
func CheckRow(row *promptset.Row) error {
	if row.Kind != promptset.KindMessages && row.Parent.ID == "" {
		return row.Error("it has no messages, and tools are called in a conversation: give messages, or have prompts " +
			"taken as messages of the user")
	}
	return nil
}
