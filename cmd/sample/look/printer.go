package look

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/batch/review"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// printer prints rows with their completions.
type printer struct {
	w             io.Writer
	rows, prompts int // to print at most, 0 for all; printed
	full, json    bool
	width         int
}

// rowJSON is a row as --json prints it.
type rowJSON struct {
	ID          string `json:"id"`
	Prompt      string `json:"prompt"`
	Completions []any  `json:"completions"`
}

type completionJSON struct {
	Generation       int    `json:"generation"`
	Text             string `json:"text"`
	FinishReason     string `json:"finish_reason"`
	CompletionTokens int    `json:"completion_tokens"`
	Error            string `json:"error,omitempty"`
	Reasoning        string `json:"reasoning,omitempty"`
	ToolCalls        any    `json:"tool_calls,omitempty"`
	Accepted         *bool  `json:"accepted,omitempty"` // if it was judged
	Verdict          string `json:"verdict,omitempty"`
}

// vectorJSON is a vector as --json prints it.
type vectorJSON struct {
	Generation int       `json:"generation"`
	Embedding  []float32 `json:"embedding"`
	Truncated  bool      `json:"truncated,omitempty"`
}

// vectorsJSON are the vectors of tokens as --json prints them.
type vectorsJSON struct {
	Generation int         `json:"generation"`
	Embeddings [][]float32 `json:"embeddings"`
	Truncated  bool        `json:"truncated,omitempty"`
}

// scoresJSON are scores of classes, parts of a text or documents as --json prints them.
type scoresJSON struct {
	Generation int       `json:"generation"`
	Label      string    `json:"label,omitempty"`
	Labels     []string  `json:"labels,omitempty"`
	Starts     []int32   `json:"starts,omitempty"`
	Ends       []int32   `json:"ends,omitempty"`
	Scores     []float32 `json:"scores"`
	Ranking    []int32   `json:"ranking,omitempty"`
	Truncated  bool      `json:"truncated,omitempty"`
}

func asJSON(c *promptset.Result) any {
	switch {
	case c.Vectors != nil:
		return vectorsJSON{c.Generation, c.Vectors, c.Truncated}
	case c.Vector == nil:
	case c.Label != "":
		return scoresJSON{Generation: c.Generation, Label: c.Label, Scores: c.Vector, Truncated: c.Truncated}
	case c.Labels != nil:
		return scoresJSON{Generation: c.Generation, Labels: c.Labels, Starts: c.Starts, Ends: c.Ends, Scores: c.Vector,
			Truncated: c.Truncated}
	case c.Ranking != nil:
		return scoresJSON{Generation: c.Generation, Scores: c.Vector, Ranking: c.Ranking, Truncated: c.Truncated}
	default:
		return vectorJSON{c.Generation, c.Vector, c.Truncated}
	}
	j := &completionJSON{Generation: c.Generation, Text: c.Text, FinishReason: c.FinishReason,
		CompletionTokens: c.CompletionTokens, Error: c.Err, Reasoning: c.Reasoning, Verdict: c.Verdict}
	if c.Judgment != completion.Unjudged {
		accepted := c.Judgment == completion.Accepted
		j.Accepted = &accepted
	}
	if raw := json.RawMessage(c.ToolCalls); json.Valid(raw) {
		j.ToolCalls = raw
	}
	return j
}

// line prints a line of JSON, of strings and numbers only.
func (p *printer) line(value any) {
	text, _ := json.Marshal(value)
	fmt.Fprintf(p.w, "%s\n", text)
}

func (p *printer) print(row *review.Row) {
	if p.json {
		p.prompts++
		all := rowJSON{ID: row.ID, Prompt: row.Prompt}
		for i := range row.Completions {
			all.Completions = append(all.Completions, asJSON(&row.Completions[i]))
		}
		p.line(all)
		return
	}
	p.head(row.ID, row.Prompt)
	for _, c := range row.Completions {
		p.completion(fmt.Sprintf("▸ %d", c.Generation), &c)
	}
}

func (p *printer) completion(mark string, c *promptset.Result) {
	if c.Err != "" {
		fmt.Fprintf(p.w, "  %s: error: %s\n", mark, visible.Line(c.Err))
		return
	}
	if c.IsEncoded() {
		cut := ""
		if c.Truncated {
			cut = ", of the beginning of the prompt"
		}
		fmt.Fprintf(p.w, "  %s %s%s\n", mark, c.VectorText(), cut)
		return
	}
	ends := visible.Line(c.FinishReason) + ", " + plural.Count(c.CompletionTokens, "token")
	texts := c.Readable()
	if len(texts) == 0 {
		fmt.Fprintf(p.w, "  %s (%s, no text)\n", mark, ends)
		return
	}
	fmt.Fprintf(p.w, "  %s (%s)\n", mark, ends)
	for _, text := range texts {
		fmt.Fprintf(p.w, "    %s\n", strings.ReplaceAll(p.cut(text, 400), "\n", "\n    "))
	}
}

// head prints the heading of a prompt. An answer whose request is not known has none.
func (p *printer) head(id, prompt string) {
	p.prompts++
	fmt.Fprintln(p.w, rule(fmt.Sprintf("── %s ", visible.Line(id)), p.width))
	if prompt != "" {
		fmt.Fprintln(p.w, cli.Indent(p.cut(prompt, 600)))
	}
}

// printPrompts prints a file that is no output but an input.
func (p *printer) printPrompts(ctx context.Context, file string) error {
	reader, err := promptset.OpenFrom(ctx, promptset.Anywhere(), []string{file})
	if err != nil {
		return fmt.Errorf("%s is neither an output of sample run nor an input for it: %w", file, err)
	}
	for row := range reader.Rows(ctx) {
		text := row.PromptText()
		if row.Err != nil {
			text = "error: " + row.Err.Error()
		}
		if p.head(row.ID, text); p.rows > 0 && p.prompts == p.rows {
			break
		}
	}
	if err := reader.Err(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s has %s and no completions: it is an input, and sample run --input %s generates "+
		"some\n",
		file, plural.Count(reader.NumRows(), "prompt"), file)
	return err
}

// cut shortens a text to about n characters unless --full was given.
func (p *printer) cut(text string, n int) string {
	if p.full || utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n]) + " …"
}

func rule(title string, width int) string {
	return title + strings.Repeat("─", max(width-utf8.RuneCountInString(title), 0))
}
