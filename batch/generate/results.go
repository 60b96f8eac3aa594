package generate

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/schedule"
)

// results makes results of completions.
type results struct {
	columns  []string            // columns that the output has on request
	versions completion.Versions // counts of versions of weights; nil unless the job's may change
	replies  *replySplitter      // nil if texts stay whole
	encoded  finisher            // nil if rows have completions
}

// dress gives a copy of a completion what its row wants alongside the tokens, and takes off what it does not.
func (c *results) dress(r *completion.Result, row *pendingRow, request *engine.Request, extras reuse.Extras) {
	extras.Strip(r)
	if r.PromptTokenIDs = nil; c.wantsPromptTokens(row.row, request) {
		r.PromptTokenIDs = request.Tokens
	}
}

// resultOf is a completion of a row as it is journaled and written.
func (c *results) resultOf(p *pendingRow, done *engine.Completion) completion.Result {
	r := ask.ResultOf(done)
	if done.Err != nil {
		r.ErrParam, r.ErrCode = ask.ParamOf(p.row, done.Err)
		r.ErrStatus = statusOf(done.Err, r.ErrCode)
	} else {
		c.onRequest(&r, p.row, done)
		c.replies.split(&r, p.row, done.Request)
		if c.encoded != nil {
			r.Truncated = done.Request.Truncated
			if r.Err = c.encoded(&r, requests.Of(p.row), done.Vector); r.Err != "" {
				r.FinishReason = string(engine.FinishError)
			}
		}
	}
	return r
}

// onRequest takes what a completion has alongside what all have.
func (c *results) onRequest(r *completion.Result, row *promptset.Row, done *engine.Completion) {
	if slices.Contains(c.columns, "processed_logprobs") {
		if r.ProcessedLogprobs = done.ProcessedLogprobs; r.ProcessedLogprobs == nil {
			r.ProcessedLogprobs = []float32{}
		}
	}
	if slices.Contains(c.columns, "experts") {
		r.Experts = append([]uint16{}, done.Experts...)
	}
	for m, values := range done.Measures {
		if name := schedule.Measure(m).String(); slices.Contains(c.columns, name) {
			r.SetMeasure(name, values)
		}
	}
	if c.keepsWeights() && len(done.Weights) > 0 {
		for _, run := range done.Weights {
			r.WeightsVersions = append(r.WeightsVersions, run.Version)
			r.WeightsStarts = append(r.WeightsStarts, int32(run.First))
		}
	}
	if c.wantsPromptTokens(row, done.Request) {
		r.PromptTokenIDs = done.Request.Tokens
	}
}

func (c *results) wantsPromptTokens(row *promptset.Row, request *engine.Request) bool {
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

// keepsWeights reports whether results have the versions of the weights.
func (c *results) keepsWeights() bool {
	return c.versions != nil || slices.ContainsFunc(c.columns, func(name string) bool {
		return strings.HasPrefix(name, "weights_")
	})
}
