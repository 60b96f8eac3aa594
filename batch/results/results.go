// Package results makes a row's results, as they are journaled and written, of what an engine or an encoder gives:
// completions taken apart into reasoning, text and calls of tools, vectors, and scores.
package results

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models/scoring"
)

// Maker makes the results of a job. Its methods may be called from several goroutines.
type Maker struct {
	Columns  []string            // columns that the output has on request
	Versions completion.Versions // counts of versions of weights; nil unless the job's may change
	replies  *replySplitter      // nil if texts stay whole
	encoded  finisher            // nil if rows have completions
	vectors  spec.Vectors        // of prompts, alongside completions
}

// NewMaker returns what makes the results of a job whose output has these columns on request. input has the columns of
// the rows, nil if they are not known.
func NewMaker(p *process.Process, j *spec.Job, s *process.Session, input *promptset.Schema, columns []string) (Maker,
	error) {
	replies, err := newReplySplitter(p, j, s, input)
	return Maker{Columns: columns, replies: replies, encoded: finisherOf(j, &s.Text), vectors: j.Vectors}, err
}

// Encodes reports whether rows have vectors or scores, and no completions.
func (m *Maker) Encodes() bool { return m.encoded != nil }

// Naming is how the completions of a request are taken apart, as a part of their names; own reports that what comes
// out depends on the row's id and the generation, as ids of calls do.
func (m *Maker) Naming(row *promptset.Row, request *engine.Request) (form string, own bool) {
	return m.replies.naming(row, request)
}

// Dress gives a copy of a completion what its row wants alongside the tokens, and takes off what it does not.
func (m *Maker) Dress(r *completion.Result, row *promptset.Row, request *engine.Request, extras reuse.Extras) {
	extras.Strip(r)
	if r.PromptTokenIDs = nil; m.wantsPromptTokens(row, request) {
		r.PromptTokenIDs = request.Tokens
	}
}

// Failed is the result of a row that no completion can be generated of.
func Failed(row *promptset.Row, err error) (r completion.Result) {
	r.FinishReason = string(engine.FinishError)
	fail(&r, row, err)
	return r
}

// fail gives a result an error.
func fail(r *completion.Result, row *promptset.Row, err error) {
	r.Err = err.Error()
	r.ErrParam, r.ErrCode = ask.ParamOf(row, err)
	r.ErrStatus = statusOf(err, r.ErrCode)
}

// Of is a completion of a row as it is journaled and written.
func (m *Maker) Of(row *promptset.Row, done *engine.Completion) completion.Result {
	r := ask.ResultOf(done)
	if done.Err != nil {
		fail(&r, row, done.Err)
	} else {
		m.onRequest(&r, row, done)
		m.replies.split(&r, row, done.Request)
		if m.encoded != nil {
			r.Truncated = done.Request.Truncated
			if r.Err = m.encoded(&r, row, done.Request, done.Vector); r.Err != "" {
				r.FinishReason = string(engine.FinishError)
			}
		}
	}
	return r
}

// onRequest takes what a completion has alongside what all have.
func (m *Maker) onRequest(r *completion.Result, row *promptset.Row, done *engine.Completion) {
	if slices.Contains(m.Columns, "processed_logprobs") {
		if r.ProcessedLogprobs = done.ProcessedLogprobs; r.ProcessedLogprobs == nil {
			r.ProcessedLogprobs = []float32{}
		}
	}
	if slices.Contains(m.Columns, "experts") {
		r.Experts = append([]uint16{}, done.Experts...)
	}
	if slices.Contains(m.Columns, completion.HiddenColumn) {
		r.Hidden = append([]byte{}, done.Hidden...)
	}
	for number, values := range done.Measures {
		if name := schedule.Measure(number).String(); slices.Contains(m.Columns, name) {
			r.SetMeasure(name, values)
		}
	}
	if m.keepsWeights() && len(done.Weights) > 0 {
		for _, run := range done.Weights {
			r.WeightsVersions = append(r.WeightsVersions, run.Version)
			r.WeightsStarts = append(r.WeightsStarts, int32(run.First))
		}
	}
	if done.ChoiceLogprobs != nil {
		r.ChoiceProbabilities = scoring.Shares(done.ChoiceLogprobs)
	}
	if done.Request.State && done.State != nil {
		r.Embedding, _ = finishedVector(m.vectors, 0, done.State) // the job has checked the dimensions
	}
	if m.wantsPromptTokens(row, done.Request) {
		r.PromptTokenIDs = done.Request.Tokens
	}
}

func (m *Maker) wantsPromptTokens(row *promptset.Row, request *engine.Request) bool {
	return request.ScorePrompt || slices.Contains(m.Columns, "prompt_token_ids") || requests.Of(row).WantsTokenIDs()
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
func (m *Maker) keepsWeights() bool {
	return m.Versions != nil || slices.ContainsFunc(m.Columns, func(name string) bool {
		return strings.HasPrefix(name, "weights_")
	})
}
