package conversation

import (
	"bytes"
	"encoding/json"

	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// Result returns the completion as it is written: the text of the last turn, and the tokens of all turns with what
// stands between them. With a failure the completion has that as its error.
func (c *Conversation) Result(failure error) completion.Result {
	first, last := &c.turns[0].result, &c.last().result
	r := *last
	r.PromptTokens, r.PromptTokenIDs, r.PromptLogprobs = first.PromptTokens, first.PromptTokenIDs, first.PromptLogprobs
	r.PromptTopIDs, r.PromptTopLogprobs = first.PromptTopIDs, first.PromptTopLogprobs
	r.Conversation = completion.Conversation{Turns: len(c.turns), Messages: c.messages(), Mask: []int32{}}
	r.TokenIDs, r.CompletionTokens = []int32{}, 0
	r.Logprobs, r.ProcessedLogprobs, r.TopIDs, r.TopLogprobs = nil, nil, nil, nil
	r.Measures, r.Experts = completion.Result{}.Measures, nil
	before := 0 // tokens of the turns before and of their prompts
	for i := range c.turns {
		t := &c.turns[i]
		if i > 0 {
			c.insert(&r, t.prompt[before:])
		}
		before = len(t.prompt) + len(t.result.TokenIDs)
		r.TokenIDs = append(r.TokenIDs, t.result.TokenIDs...)
		r.CompletionTokens += len(t.result.TokenIDs)
		for range t.result.TokenIDs {
			r.Mask = append(r.Mask, 1)
		}
		joinLists(&r, &t.result)
	}
	if failure != nil {
		r.Err, r.FinishReason = failure.Error(), string(engine.FinishError)
	}
	return r
}

// Failing reports whether a tool failed in a completion. Another time it may give an answer.
func Failing(r completion.Result) bool {
	var messages []struct {
		Role    string
		Content json.RawMessage
	}
	if json.Unmarshal([]byte(r.Messages), &messages) != nil {
		return false // there is none
	}
	for _, m := range messages {
		var content string
		if m.Role == "tool" && json.Unmarshal(m.Content, &content) == nil && tools.IsFailure(content) {
			return true
		}
	}
	return false
}

// AddAnswers adds what tools answered in a completion of a row, as its messages have it.
func AddAnswers(to map[tools.Place]string, row *promptset.Row, r *completion.Result) error {
	var messages []struct {
		Role    string
		Content json.RawMessage
	}
	if err := json.Unmarshal([]byte(r.Messages), &messages); err != nil {
		return err
	}
	place := tools.Place{Row: row.Index, Generation: r.Generation, Turn: -1}
	for _, m := range messages[min(len(messages), len(row.Messages)):] {
		if m.Role != "tool" {
			place.Turn, place.Number = place.Turn+1, 0
			continue
		}
		var content string
		if err := json.Unmarshal(m.Content, &content); err != nil {
			return err
		}
		to[place] = content
		place.Number++
	}
	return nil
}

// Full returns the completion of which the next turn has no room: it is truncated after the last one.
func (c *Conversation) Full() completion.Result {
	r := c.Result(nil)
	r.FinishReason = string(engine.FinishLength)
	return r
}

// insert adds tokens that the model did not generate.
func (c *Conversation) insert(r *completion.Result, tokens []int32) {
	first := &c.turns[0].result
	r.TokenIDs = append(r.TokenIDs, tokens...)
	r.Mask = append(r.Mask, make([]int32, len(tokens))...)
	between := completion.Result{}
	fill := func(list *[]float32, like []float32) {
		if like != nil {
			*list = make([]float32, len(tokens))
		}
	}
	fill(&between.Logprobs, first.Logprobs)
	fill(&between.ProcessedLogprobs, first.ProcessedLogprobs)
	for m := range first.Measures {
		fill(&between.Measures[m], first.Measures[m])
	}
	if n := len(first.TokenIDs); n > 0 && first.Experts != nil {
		between.Experts = make([]uint16, len(first.Experts)/n*len(tokens))
	}
	if first.TopIDs != nil {
		for range tokens {
			between.TopIDs, between.TopLogprobs = append(between.TopIDs, []int32{}), append(between.TopLogprobs,
				[]float32{})
		}
	}
	joinLists(r, &between)
}

// joinLists appends what a result has for each of its tokens.
func joinLists(to, from *completion.Result) {
	join(&to.Logprobs, from.Logprobs)
	join(&to.ProcessedLogprobs, from.ProcessedLogprobs)
	join(&to.TopIDs, from.TopIDs)
	join(&to.TopLogprobs, from.TopLogprobs)
	join(&to.Experts, from.Experts)
	for m := range from.Measures {
		join(&to.Measures[m], from.Measures[m])
	}
}

// join appends a list, and keeps nil for none apart from an empty one.
func join[T any](to *[]T, from []T) {
	if *to = append(*to, from...); *to == nil && from != nil {
		*to = []T{}
	}
}

// toolMessage is the answer to a call, and assistantMessage is a turn of the model, in the form of OpenAI's API.
type (
	toolMessage struct {
		Role       string `json:"role"`
		ToolCallID string `json:"tool_call_id"`
		Name       string `json:"name"`
		Content    string `json:"content"`
	}
	assistantMessage struct {
		Role      string          `json:"role"`
		Content   *string         `json:"content"` // null for calls alone
		Reasoning string          `json:"reasoning_content,omitempty"`
		ToolCalls json.RawMessage `json:"tool_calls,omitempty"`
	}
	plainMessage struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
)

// marshal returns JSON with texts as they are.
func marshal(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // they are texts, and JSON that was read as such
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// message returns the turn as a message.
func (t *turn) message() promptset.Message {
	r := &t.result
	m := assistantMessage{Role: "assistant", Content: &r.Text, Reasoning: r.Reasoning,
		ToolCalls: json.RawMessage(r.ToolCalls)}
	if r.Text == "" && r.ToolCalls != "" {
		m.Content = nil
	}
	return promptset.Message{Role: m.Role, Content: r.Text, Object: string(marshal(m))}
}

// messages returns the whole conversation: what the row gives, the turns, and the answers that there are.
func (c *Conversation) messages() string {
	var all []json.RawMessage
	add := func(messages []promptset.Message) {
		for _, m := range messages {
			if m.Object != "" {
				all = append(all, json.RawMessage(m.Object))
			} else {
				all = append(all, marshal(plainMessage{m.Role, m.Content}))
			}
		}
	}
	add(c.row.Messages)
	for i := range c.turns {
		t := &c.turns[i]
		add([]promptset.Message{t.message()})
		if t.left == 0 {
			add(t.results())
		}
	}
	return string(marshal(all))
}
