package generate

import (
	"errors"
	"net/http"
	"slices"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/schedule"
)

// serve gives the rows that wait for a completion their own copies of it. An error is worded for each row. The caller
// holds the lock.
func (c *collector) serve(waiting []follower, r completion.Result, done *engine.Completion) error {
	for _, f := range waiting {
		if f.row.has(f.generation) { // its request was refused as a whole
			continue
		}
		own, request := r, f.row.requestOf(f.generation)
		own.Generation = f.generation
		var failed error
		if done != nil && done.Err != nil {
			again := *done
			again.Request, again.Generation, failed = request, f.generation, done.Err
			own = c.resultOf(f.row, &again)
		} else {
			c.dress(&own, f.row, request, f.extras)
		}
		if _, err := c.put(f.row, &own, request, failed, reuse.Repeated); err != nil {
			return err
		}
	}
	return nil
}

// dress gives a copy of a completion what its row wants alongside the tokens, and takes off what it does not.
func (c *collector) dress(r *completion.Result, row *pendingRow, request *engine.Request, extras reuse.Extras) {
	extras.Strip(r)
	if r.PromptTokenIDs = nil; c.wantsPromptTokens(row.row, request) {
		r.PromptTokenIDs = request.Tokens
	}
}

// resultOf is a completion of a row as it is journaled and written.
func (c *collector) resultOf(p *pendingRow, done *engine.Completion) completion.Result {
	r := completion.Result{
		Generation: done.Generation, Text: done.Text, TokenIDs: done.Tokens, Logprobs: done.Logprobs,
		FinishReason: string(done.FinishReason), PromptTokens: done.PromptTokens, CompletionTokens: len(done.Tokens),
	}
	if done.Err != nil {
		r.Err = done.Err.Error()
		r.ErrParam, r.ErrCode = ask.ParamOf(p.row, done.Err)
		r.ErrStatus = statusOf(done.Err, r.ErrCode)
	} else {
		c.onRequest(&r, p.row, done)
		c.replies.split(&r, p.row, done.Request)
	}
	return r
}

// onRequest takes what a completion has alongside what all have.
func (c *collector) onRequest(r *completion.Result, row *promptset.Row, done *engine.Completion) {
	r.TopIDs, r.TopLogprobs = done.TopIDs, done.TopLogprobs
	if done.Request.TopLogprobs > 0 && r.TopIDs == nil { // no token was generated
		r.TopIDs, r.TopLogprobs = [][]int32{}, [][]float32{}
	}
	if slices.Contains(c.columns, "processed_logprobs") {
		if r.ProcessedLogprobs = done.ProcessedLogprobs; r.ProcessedLogprobs == nil {
			r.ProcessedLogprobs = []float32{}
		}
	}
	for m, values := range done.Measures {
		if name := schedule.Measure(m).String(); slices.Contains(c.columns, name) {
			r.SetMeasure(name, values)
		}
	}
	if p := done.Prompt; p != nil {
		r.PromptLogprobs, r.PromptTopIDs, r.PromptTopLogprobs = p.Logprobs, p.TopIDs, p.TopLogprobs
	}
	if c.wantsPromptTokens(row, done.Request) {
		r.PromptTokenIDs = done.Request.Tokens
	}
}

func (c *collector) wantsPromptTokens(row *promptset.Row, request *engine.Request) bool {
	return request.ScorePrompt || slices.Contains(c.columns, "prompt_token_ids") || requests.Of(row).WantsTokenIDs()
}

// statusOf returns the HTTP status with which answers to batch files report an error that has OpenAI's code.
func statusOf(err error, code string) int {
	switch {
	case errors.Is(err, engine.ErrNotANumber):
		return http.StatusInternalServerError
	case code == openai.CodeNoModel:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
