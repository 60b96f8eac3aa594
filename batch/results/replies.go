package results

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/text/chat/reply"
)

// replySplitter takes completions apart into reasoning, text and calls of tools.
type replySplitter struct {
	job     *spec.Job
	session *process.Session
	forms   reply.Forms
	without reply.Forms // forms with reasoning alone
}

// newReplySplitter returns what takes the completions of the job apart; nil if nobody asks for it. input has the
// columns of the rows, nil for none.
func newReplySplitter(p *process.Process, j *spec.Job, s *process.Session, input *promptset.Schema) (*replySplitter,
	error) {
	if j.Encodes() {
		return nil, nil
	}
	reasoning, calls := j.ReasoningParser, j.ToolCallParser
	answers := j.Format == promptset.FormatOpenAI
	hasReasoning := slices.Contains(j.Columns, spec.ReasoningColumn)
	hasCalls := slices.Contains(j.Columns, spec.ToolCallsColumn) || j.Tools.Used()
	tools := j.Sampling.Tools != "" || input != nil && slices.Contains(input.Parameters(), "tools")
	if forms, err := reply.New(reply.None, calls, s.Template); tools && !hasCalls && !answers && err == nil &&
		forms.HasCalls() {
		p.Printf("warning: there are tools, and no column tool_calls: calls stay in the text. `columns` tool_calls " +
			"takes them out")
	}
	if !hasReasoning && !hasCalls && !answers {
		return nil, nil
	}
	if !hasCalls && !answers {
		calls = reply.None
	}
	forms, err := reply.New(reasoning, calls, s.Template)
	if err != nil {
		return nil, err
	}
	forms.KeepReasoning = !hasReasoning && !answers
	if hasReasoning && !forms.HasReasoning() && reasoning == reply.Auto {
		p.Printf("warning: the chat template has no form of reasoning that Quire knows: the column reasoning is " +
			"null; " +
			"`reasoning-parser` names one")
	}
	if hasCalls && !forms.HasCalls() && calls == reply.Auto {
		p.Printf("warning: the chat template has no form of tool calls that Quire knows: the column tool_calls is " +
			"null; `tool-call-parser` names one")
	}
	if !forms.HasReasoning() && !forms.HasCalls() {
		return nil, nil
	}
	return &replySplitter{job: j, session: s, forms: forms, without: forms.WithoutCalls()}, nil
}

// formsOf are the forms by which the completions of a row are taken apart; nil if they stay whole.
func (a *replySplitter) formsOf(row *promptset.Row, set *parameter.Set) *reply.Forms {
	answers := a.job.Format == promptset.FormatOpenAI
	switch {
	case answers && row.Kind != promptset.KindMessages:
		return nil
	case set.ToolChoice == "none" || answers && set.Tools == "":
		return &a.without
	}
	return &a.forms
}

// naming is [Maker.Naming].
func (a *replySplitter) naming(row *promptset.Row, request *engine.Request) (form string, own bool) {
	if a == nil {
		return "", false
	}
	set := row.Overrides.Over(a.job.Sampling)
	forms := a.formsOf(row, &set)
	if forms == nil {
		return "", false
	}
	return fmt.Sprintf("%s, open %v, tools %s", forms.Name(), a.session.Thinks(forms, row, request.Tokens, &set),
		set.Tools), forms.HasCalls()
}

// split takes a completion apart. A nil apart leaves it as it is.
func (a *replySplitter) split(r *completion.Result, row *promptset.Row, request *engine.Request) {
	if a == nil || r.Text == "" {
		return
	}
	set := row.Overrides.Over(a.job.Sampling)
	forms := a.formsOf(row, &set)
	if forms == nil {
		return
	}
	marks := forms.Marks()
	text := r.Text
	if a.session.Mark != nil && !request.KeepSpecialTokens {
		text = a.session.Mark(r.TokenIDs, text, marks)
	}
	p := forms.Parse(text, a.session.Thinks(forms, row, request.Tokens, &set), reply.Tools(set.Tools))
	if p.Reasoning == "" && len(p.ToolCalls) == 0 && p.Text == text {
		return
	}
	forms.Identify(&p, request.ID, r.Generation)
	if text != r.Text { // marks that are special tokens, and that the forms did not take
		for _, mark := range marks {
			p.Text = strings.ReplaceAll(p.Text, mark, "")
		}
	}
	r.Reasoning, r.Text, r.ToolCalls = p.Reasoning, p.Text, p.JSON()
	if len(p.ToolCalls) > 0 && r.FinishReason == string(engine.FinishStop) {
		r.FinishReason = "tool_calls"
	}
}
