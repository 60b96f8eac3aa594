// Package answers writes completions as the output files of OpenAI's batch API, and reads them back.
package answers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/requests"
)

// encoder writes a part with answers to the lines of batch files.
type encoder struct {
	w       io.Writer
	options *completion.EncoderOptions
	buf     []byte
}

func NewEncoder(w io.Writer, _ *completion.Layout, o *completion.EncoderOptions) (completion.Encoder, error) {
	return &encoder{w: w, options: o}, nil
}

func (e *encoder) Finish() error { return nil }

func (e *encoder) Add(row *record.Row, results []completion.Result) (rows, size int64, err error) {
	line := e.line(row, results)
	if e.buf, err = line.Append(e.buf[:0]); err != nil {
		return 0, 0, err
	}
	n, err := e.w.Write(e.buf)
	return int64(len(results)), int64(n), err
}

// line returns the answer to a row. Its ids follow from the job and the row, so that it has the same bytes whenever
// and wherever it is written.
func (e *encoder) line(row *record.Row, results []completion.Result) *openai.Line {
	meta := e.options.Meta
	request := requests.Of(row)
	if request == nil { // the row is from a file of another format
		request = &requests.Request{}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %d %q", meta[completion.MetaFingerprint], meta[completion.MetaParameters], row.Index,
		request.CustomID)
	name := hex.EncodeToString(sum.Sum(nil))[:32]
	line := &openai.Line{ID: "batch_req_" + name, CustomID: strings.ToValidUTF8(request.CustomID, "\uFFFD"),
		Response: &openai.Response{StatusCode: 200, RequestID: "req_" + name}}
	if failed := results[0].Err; failed != "" {
		line.Response.StatusCode = http.StatusBadRequest
		if row.Err == nil {
			line.Response.StatusCode = cmp.Or(results[0].ErrStatus, http.StatusBadRequest)
		}
		cause := openai.Error{Param: results[0].ErrParam, Code: results[0].ErrCode, What: failed}
		line.Response.Body = &openai.Body{Problem: openai.ProblemOf(line.Response.StatusCode, cause)}
		return line
	}
	if request.Endpoint.Encodes() {
		line.Response.Body = e.encoded(row, request, results, name)
		return line
	}
	created := int64(0)
	b := &openai.Body{ID: "chatcmpl-" + name, Object: openai.ChatObject, Created: &created,
		Model:             cmp.Or(request.ModelName, meta[completion.MetaModel]),
		Usage:             &openai.Usage{PromptTokens: completion.PromptTokens(row, results)},
		SystemFingerprint: systemFingerprint(meta[completion.MetaFingerprint])}
	if request.Endpoint == openai.Completions {
		b.ID, b.Object = "cmpl-"+name, openai.CompletionsObject
	} else {
		b.ScoredPrompt = e.prompt(request, &results[0])
	}
	for i := range results {
		b.Choices = append(b.Choices, e.choice(request, i, &results[i]))
		b.Usage.CompletionTokens += results[i].CompletionTokens
		b.Usage.ByChoice = append(b.Usage.ByChoice, results[i].CompletionTokens)
	}
	if len(results) == 1 {
		b.Usage.ByChoice = nil
	}
	b.Usage.TotalTokens = b.Usage.PromptTokens + b.Usage.CompletionTokens
	line.Response.Body = b
	return line
}

// encoded returns the answer to a line for an encoder.
func (e *encoder) encoded(row *record.Row, request *requests.Request, results []completion.Result,
	name string) *openai.Body {
	tokens := completion.PromptTokens(row, results)
	b := &openai.Body{Object: openai.ListObject, Model: cmp.Or(request.ModelName, e.options.Meta[completion.MetaModel]),
		Usage: &openai.Usage{PromptTokens: tokens, CompletionTokens: openai.NoCompletions,
			TotalTokens: tokens}}
	created := int64(0)
	switch request.Endpoint {
	case openai.Embeddings:
		for i := range results {
			b.Data = append(b.Data, openai.NewEmbedding(i, results[i].Vector, request.Base64))
		}
	case openai.Classify:
		b.ID, b.Created = "classify-"+name, &created
		for i := range results {
			r := &results[i]
			b.Data = append(b.Data, openai.Datum{Index: i, Label: &r.Label, Probs: r.Vector, Count: len(r.Vector)})
		}
	case openai.Score:
		b.ID, b.Created = "score-"+name, &created
		for i := range results[0].Vector {
			b.Data = append(b.Data, openai.Datum{Object: "score", Index: i, Score: &results[0].Vector[i]})
		}
	case openai.Rerank:
		b.ID, b.Object = "rerank-"+name, ""
		for _, i := range results[0].Ranking {
			one := openai.Ranked{Index: int(i), Score: results[0].Vector[i]}
			if !request.WithoutDocuments && int(i) < len(row.Seconds) {
				one.Document = &openai.Document{Text: row.Seconds[i]}
			}
			b.Results = append(b.Results, one)
		}
	}
	return b
}

// systemFingerprint returns a name in OpenAI's form for the model's files.
func systemFingerprint(model string) string {
	if model == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(model))
	return "fp_" + hex.EncodeToString(sum[:5])
}

func (e *encoder) choice(request *requests.Request, i int, r *completion.Result) openai.Choice {
	c := openai.Choice{Index: i, ChoiceProbabilities: r.ChoiceProbabilities}
	if request.Endpoint == openai.Completions {
		c.Text, c.ScoredPrompt = &r.Text, e.prompt(request, r)
	} else {
		c.Message = openai.NewMessage(r.Reasoning, r.Text, r.ToolCalls)
	}
	c.FinishWith(r.FinishReason)
	if request.Logprobs {
		tokens := e.tokens(r, request.AsIDs)
		if c.Logprobs = openai.ChatLogprobs(tokens); request.Endpoint == openai.Completions {
			c.Logprobs = openai.TextLogprobs(tokens)
		}
	}
	if request.TokenIDs {
		c.TokenIDs = r.TokenIDs
	}
	return c
}

// tokens returns the generated tokens with their log-probabilities. If the model has no tokenizer, tokens have the
// names that vLLM gives them.
func (e *encoder) tokens(r *completion.Result, asIDs bool) []openai.Token {
	text := e.options.TokenText
	if text == nil || asIDs {
		text = func(id int32) []byte { return fmt.Appendf(nil, "token_id:%d", id) }
	}
	return tokensOf(text, r.TokenIDs, r.Logprobs, r.TopIDs, r.TopLogprobs)
}

// tokensOf returns tokens with their log-probabilities, and the likeliest ones if they are known.
func tokensOf(text completion.TokenText, ids []int32, logprobs []float32, topIDs [][]int32,
	tops [][]float32) []openai.Token {
	tokens := make([]openai.Token, min(len(ids), len(logprobs)))
	for i := range tokens {
		tokens[i] = openai.Token{ID: ids[i], Bytes: text(ids[i]), Logprob: logprobs[i]}
		if i < min(len(topIDs), len(tops)) {
			for k, id := range topIDs[i] {
				tokens[i].Top = append(tokens[i].Top, openai.Token{ID: id, Bytes: text(id), Logprob: tops[i][k]})
			}
		}
	}
	return tokens
}

// prompt returns what the answer states of a completion's prompt.
func (e *encoder) prompt(request *requests.Request, r *completion.Result) (p openai.ScoredPrompt) {
	if r.PromptLogprobs != nil {
		text := e.options.TokenText
		if text == nil {
			text = func(int32) []byte { return nil }
		}
		p.PromptLogprobs = openai.PromptLogprobs(tokensOf(text, r.PromptTokenIDs, r.PromptLogprobs, r.PromptTopIDs,
			r.PromptTopLogprobs))
	}
	if request.TokenIDs {
		p.PromptTokenIDs = r.PromptTokenIDs
	}
	return p
}

// OneError reduces results with errors to one error: a line has either choices or an error.
func OneError(results []completion.Result) []completion.Result {
	for _, r := range results {
		if r.Err != "" {
			return []completion.Result{{FinishReason: r.FinishReason, Err: r.Err, ErrParam: r.ErrParam,
				ErrCode: r.ErrCode, ErrStatus: r.ErrStatus}}
		}
	}
	return results
}
