// Package interactive serves a person or a program that waits for each answer: it completes single prompts and
// conversations, and writes their text while it is generated, and does operations on contexts.
package interactive

import (
	"context"
	"slices"
	"sync"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
)

// Model is a model for interactive use: completions are reported as they are generated, and nothing is kept.
type Model struct {
	Process *process.Process
	Job     *spec.Job // the job, with the defaults that the model's files ask for
	session *process.Session
	builder *ask.Builder
}

// Output receives completions in order: by prompt, then by generation. Its calls do not overlap.
type Output interface {
	// Begin begins a completion. Text adds to its text.
	Begin(prompt, generation int)
	Text(piece string)
	// End ends it. With an error there may be no text, and no further generation of the prompt.
	End(reason engine.FinishReason, err error)
}

// Open opens the model.
func Open(ctx context.Context, p *process.Process, j *spec.Job) (*Model, error) {
	j, err := j.WithMapping()
	if err != nil {
		return nil, err
	}
	if err := p.Models.Lacks(j.Engine.Backend); err != nil {
		return nil, err
	}
	model, err := p.Models.Identify(ctx, j, p)
	if err != nil {
		return nil, err
	}
	if !model.Tokenizer && p.Contexts == 0 { // tokens may be given to contexts
		return nil, outcome.Errorf(outcome.Misused,
			"the model %s has no tokenizer, and a prompt is text: take a folder with a "+
				"tokenizer.json", j.Model)
	}
	if j, err = prepare.WithModel(ctx, j, p, model); err != nil {
		return nil, err
	}
	p.ReportOpening(j)
	session, err := p.Models.OpenSession(ctx, j, p)
	if err != nil {
		return nil, err
	}
	if p.Verbose {
		p.ReportPlan(session.Plan())
	}
	return &Model{Process: p, Job: j, session: session, builder: process.NewBuilder(j, session)}, nil
}

// Stats returns the engine's figures so far.
func (t *Model) Stats() engine.Stats { return t.session.Stats() }

// Close gives the model back.
func (t *Model) Close() { t.session.Release() }

// Complete generates completions of prompts: messages of the user if the model has a chat template and PromptAs is not
// [PromptRaw], else raw text. They are the same as for a file with these rows. An error of outcome [Partial] means that
// prompts had errors, which were reported.
func (t *Model) Complete(ctx context.Context, prompts []string, to Output) error {
	rows := make([]*promptset.Row, len(prompts))
	hasTemplate := t.session.Render != nil || t.session.Template != "" // a broken template is reported for the prompt
	message := hasTemplate && t.Job.PromptAs != spec.PromptRaw
	for i, text := range prompts {
		rows[i] = t.Job.Mapping.NewRow(int64(i), "prompt", text, message)
	}
	tell := &orderedOutput{to: to}
	var requests []*engine.Request
	places := map[*engine.Request]int{} // places of their first completions
	failed := 0
	for i, row := range rows {
		first, n := t.builder.Parameters(row).Generation, t.builder.Parameters(row).N
		all, err := t.builder.Requests(row, nil)
		if err != nil {
			n, failed = 1, failed+1
		}
		begin := tell.add(i, first, n)
		if err != nil {
			tell.end(begin, "", engine.FinishError, err)
		}
		for _, r := range all {
			places[r], r.Progress = begin, func(p engine.Partial) { tell.text(begin+p.Generation-first, p.Text) }
			requests = append(requests, r)
		}
	}
	refused, err := t.run(ctx, requests, func(c *engine.Completion) {
		index := places[c.Request] + c.Generation - c.Request.FirstGeneration
		tell.end(index, c.Text, c.FinishReason, c.Err)
		if ask.Refused(c.Err) {
			tell.drop(index+1, c.Request.N-1)
		}
	})
	if failed += refused; err == nil && failed > 0 {
		err = outcome.Errorf(outcome.Partial, "%d of %s %s", failed, plural.Count(len(prompts), "prompt"),
			plural.Of(failed, "carries an error", "carry errors"))
	}
	return err
}

// run generates the completions of requests, gives each to done, and counts the requests with errors.
func (t *Model) run(ctx context.Context, requests []*engine.Request, done func(*engine.Completion)) (failed int,
	err error) {
	watch := process.WatchDevice(t.Process, t.session, func() bool { return false })
	defer watch.Stop()
	bad := map[*engine.Request]bool{}
	for c, err := range t.session.Run(ctx, slices.Values(requests)) {
		if err != nil {
			return len(bad), err
		}
		watch.Alive()
		if c.Err != nil {
			bad[c.Request] = true
		}
		done(c)
	}
	return len(bad), nil
}

// orderedOutput reports completions in order, regardless of which is generated first.
type orderedOutput struct {
	to Output

	mu      sync.Mutex
	all     []pending
	current int // index, among all, of the completion that is reported now
	started bool
}

// pending is a completion on its way to the output.
type pending struct {
	prompt, generation int
	text               string // text that was not reported yet
	written            int    // bytes of the text that were reported, or are in text
	ended, dropped     bool
	reason             engine.FinishReason
	err                error
}

// add adds the completions of a prompt, and returns the place of the first.
func (t *orderedOutput) add(prompt, first, n int) (index int) {
	index = len(t.all)
	for g := range n {
		t.all = append(t.all, pending{prompt: prompt, generation: first + g})
	}
	return index
}

// text takes the text of a completion as far as it is.
func (t *orderedOutput) text(index int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(&t.all[index], text)
	t.write()
}

func (t *orderedOutput) take(d *pending, text string) {
	if !d.ended && len(text) > d.written {
		d.text += text[d.written:]
		d.written = len(text)
	}
}

// end takes a whole completion.
func (t *orderedOutput) end(index int, text string, reason engine.FinishReason, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &t.all[index]
	t.take(d, text)
	d.ended, d.reason, d.err = true, reason, err
	t.write()
}

// drop takes n completions out that do not come.
func (t *orderedOutput) drop(index, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range n {
		t.all[index+i].ended, t.all[index+i].dropped = true, true
	}
	t.write()
}

// write reports what is next in order.
func (t *orderedOutput) write() {
	for t.current < len(t.all) {
		d := &t.all[t.current]
		if d.text == "" && !d.ended {
			return
		}
		if !t.started && !d.dropped {
			t.started = true
			t.to.Begin(d.prompt, d.generation)
		}
		if d.text != "" {
			t.to.Text(d.text)
			d.text = ""
		}
		if !d.ended {
			return
		}
		if !d.dropped {
			t.to.End(d.reason, d.err)
		}
		t.started = false
		t.current++
	}
}
