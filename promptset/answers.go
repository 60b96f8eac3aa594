package promptset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/quire/quire/promptset/openai"
)

// Names of metadata of a job that answers have, too.
const (
	MetaModel       = "quire.model"
	MetaFingerprint = "quire.model_fingerprint"
	MetaParameters  = "quire.parameters"
)

// TokenText returns the bytes that a token adds to a text, or its name where it is a special one.
type TokenText func(id int32) []byte

// answerEncoder writes a part of answers to the lines of batch files.
type answerEncoder struct {
	w       io.Writer
	options *EncoderOptions
	buf     []byte
}

func newAnswerEncoder(w io.Writer, _ *outputColumns, o *EncoderOptions) (Encoder, error) {
	return &answerEncoder{w: w, options: o}, nil
}

func (e *answerEncoder) Finish() error { return nil }

func (e *answerEncoder) Add(row *Row, results []Result) (rows, size int64, err error) {
	line := e.line(row, results)
	if e.buf, err = line.Append(e.buf[:0]); err != nil {
		return 0, 0, err
	}
	n, err := e.w.Write(e.buf)
	return int64(len(results)), int64(n), err
}

// line is the answer to a row. Its names follow from the job and the row, so that it has the same bytes whenever and
// wherever it is written.
func (e *answerEncoder) line(row *Row, results []Result) *openai.Line {
	meta := e.options.Meta
	asked := RequestOf(row)
	if asked == nil { // a row of another file
		asked = &Request{}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %d %q", meta[MetaFingerprint], meta[MetaParameters], row.Index, asked.customID)
	name := hex.EncodeToString(sum.Sum(nil))[:32]
	line := &openai.Line{ID: "batch_req_" + name, CustomID: strings.ToValidUTF8(asked.customID, "\uFFFD"),
		Response: &openai.Response{StatusCode: 200, RequestID: "req_" + name}}
	if failed := results[0].Err; failed != "" {
		line.Response.StatusCode = 400
		if row.Err == nil && e.options.Status != nil {
			line.Response.StatusCode = e.options.Status(failed)
		}
		of := openai.Error{Param: results[0].ErrParam, Code: results[0].ErrCode, What: failed}
		line.Response.Body = &openai.Body{Problem: openai.ProblemOf(line.Response.StatusCode, of)}
		return line
	}
	created := int64(0)
	b := &openai.Body{ID: "chatcmpl-" + name, Object: openai.ChatObject, Created: &created,
		Model: cmp.Or(asked.model, meta[MetaModel]), Usage: &openai.Usage{PromptTokens: PromptTokens(row, results)},
		SystemFingerprint: systemFingerprint(meta[MetaFingerprint])}
	if asked.endpoint == openai.Completions {
		b.ID, b.Object = "cmpl-"+name, openai.CompletionsObject
	} else {
		b.ScoredPrompt = e.prompt(asked, &results[0])
	}
	for i := range results {
		b.Choices = append(b.Choices, e.choice(asked, i, &results[i]))
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

// systemFingerprint is a name in OpenAI's form for the model's files.
func systemFingerprint(of string) string {
	if of == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(of))
	return "fp_" + hex.EncodeToString(sum[:5])
}

func (e *answerEncoder) choice(asked *Request, i int, r *Result) openai.Choice {
	c := openai.Choice{Index: i}
	if asked.endpoint == openai.Completions {
		c.Text, c.ScoredPrompt = &r.Text, e.prompt(asked, r)
	} else {
		c.Message = openai.NewMessage(r.Reasoning, r.Text, r.ToolCalls)
	}
	c.FinishWith(r.FinishReason)
	if asked.logprobs {
		tokens := e.tokens(r, asked.asIDs)
		if c.Logprobs = openai.ChatLogprobs(tokens); asked.endpoint == openai.Completions {
			c.Logprobs = openai.TextLogprobs(tokens)
		}
	}
	if asked.tokenIDs {
		c.TokenIDs = r.TokenIDs
	}
	return c
}

// tokens are the drawn tokens with their log-probabilities. Those of a model without a tokenizer have names, as vLLM
// has them.
func (e *answerEncoder) tokens(r *Result, asIDs bool) []openai.Token {
	text := e.options.TokenText
	if text == nil || asIDs {
		text = func(id int32) []byte { return fmt.Appendf(nil, "token_id:%d", id) }
	}
	return tokensOf(text, r.TokenIDs, r.Logprobs, r.TopIDs, r.TopLogprobs)
}

// tokensOf are tokens with their log-probabilities, and the likeliest ones where they are known.
func tokensOf(text TokenText, ids []int32, logprobs []float32, topIDs [][]int32, tops [][]float32) []openai.Token {
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

// prompt is what the answer has of the prompt of a completion.
func (e *answerEncoder) prompt(asked *Request, r *Result) (p openai.ScoredPrompt) {
	if r.PromptLogprobs != nil {
		text := e.options.TokenText
		if text == nil {
			text = func(int32) []byte { return nil }
		}
		p.PromptLogprobs = openai.PromptLogprobs(tokensOf(text, r.PromptTokenIDs, r.PromptLogprobs, r.PromptTopIDs,
			r.PromptTopLogprobs))
	}
	if asked.tokenIDs {
		p.PromptTokenIDs = r.PromptTokenIDs
	}
	return p
}

// oneError leaves one error of a row that has some: a line has choices or an error.
func oneError(results []Result) []Result {
	for _, r := range results {
		if r.Err != "" {
			return []Result{{FinishReason: r.FinishReason, Err: r.Err, ErrParam: r.ErrParam, ErrCode: r.ErrCode}}
		}
	}
	return results
}

// readAnswerPart gives the completions of a part of answers to each.
func readAnswerPart(in io.ReaderAt, size int64, each func(*Completion) error) (map[string]string, error) {
	return nil, readLines(in, size, answersOf, each)
}

// isAnswer says whether an object is a line of an output file of OpenAI's batch API.
func isAnswer(object []member) bool {
	return valueOf(object, "custom_id") != nil && valueOf(object, "response") != nil
}

// answersOf returns the completions in a line.
func answersOf(raw []byte, object []member, first bool) ([]*Completion, error) {
	if first && !isAnswer(object) {
		return nil, &lackingError{openai.ErrNotResponse.Error()}
	}
	line, err := openai.ParseLine(raw)
	if err != nil {
		return nil, err
	}
	prompt := func(string) string { return "" } // the request has it
	if failed := line.Failure(); failed != "" {
		return []*Completion{{ID: line.CustomID, Result: Result{FinishReason: "error", Err: failed},
			prompt: prompt}}, nil
	}
	body := line.Response.Body
	var all []*Completion
	for i := range body.Choices {
		c := &body.Choices[i]
		if c.Index != i {
			return nil, errors.New("its choices are not in order")
		}
		r := Result{Generation: i, Text: c.TextOf(), TokenIDs: c.TokenIDs, Logprobs: c.LogprobsOf(),
			FinishReason: c.Finish(), CompletionTokens: body.Usage.TokensOf(i, len(body.Choices))}
		if m := c.Message; m != nil {
			r.Reasoning, r.ToolCalls = m.Reasoning, string(m.ToolCalls)
		}
		r.countAlone = c.TokenIDs == nil
		if body.Usage != nil && i == 0 { // which are those of all prompts
			r.PromptTokens = body.Usage.PromptTokens
		}
		all = append(all, &Completion{ID: line.CustomID, Result: r, prompt: prompt})
	}
	return all, nil
}
