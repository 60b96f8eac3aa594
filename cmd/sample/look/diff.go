package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quire/quire/batch/review"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// errDifferent reports that two outputs have different completions.
var errDifferent = errors.New("the outputs differ")

// differ prints how two outputs differ.
type differ struct {
	*printer
	names [2]string
	err   io.Writer // takes the counts if the output is JSON
}

// differenceJSON is a completion that differs, as --json prints it. A value that an output lacks is null.
type differenceJSON struct {
	ID         string `json:"id"`
	Prompt     string `json:"prompt"`
	Generation int    `json:"generation"`
	A          any    `json:"a"`
	B          any    `json:"b"`
}

func (d *differ) print(ctx context.Context, env *cli.Environment, a *review.Output, ids []string) error {
	b, err := review.Open(ctx, env.FS, d.names[1], "")
	if err != nil {
		return err
	}
	defer b.Close()
	var wants func(*review.Row) bool
	if len(ids) > 0 {
		wants = func(row *review.Row) bool { return slices.Contains(ids, row.ID) }
	}
	c, err := review.Compare(ctx, a, b, d.rows, wants)
	if err != nil {
		return err
	}
	for found, err := range c.Differences(ctx) {
		if err != nil {
			return err
		}
		d.difference(found)
	}
	to := d.w
	if d.json {
		to = d.err
	}
	fmt.Fprintf(to, "%d completions are the same, %d differ, %d are in %s only, %d in %s only\n", c.Same, c.Different,
		c.OnlyA, visible.Line(d.names[0]), c.OnlyB, visible.Line(d.names[1]))
	if c.Different+c.OnlyA+c.OnlyB > 0 {
		return errDifferent
	}
	return nil
}

// difference prints a row that differs.
func (d *differ) difference(found *review.Difference) {
	row := found.A
	if row == nil {
		row = found.B
	}
	if !d.json {
		d.head(row.ID, row.Prompt)
	}
	for _, generation := range found.Generations {
		a, b := completionOf(found.A, generation), completionOf(found.B, generation)
		switch {
		case d.json:
			one := differenceJSON{ID: row.ID, Prompt: row.Prompt, Generation: generation}
			if a != nil {
				one.A = asJSON(a)
			}
			if b != nil {
				one.B = asJSON(b)
			}
			d.line(one)
		case a == nil:
			d.completion(fmt.Sprintf("%d in %s only", generation, visible.Line(d.names[1])), b)
		case b == nil:
			d.completion(fmt.Sprintf("%d in %s only", generation, visible.Line(d.names[0])), a)
		case a.Err != "" || b.Err != "":
			d.completion(fmt.Sprintf("- %d", generation), a)
			d.completion(fmt.Sprintf("+ %d", generation), b)
		default:
			d.both(a, b)
		}
	}
}

// both prints a completion that both outputs have.
func (d *differ) both(a, b *promptset.Result) {
	how := func(c *promptset.Result) string {
		return visible.Line(c.FinishReason) + ", " + plural.Count(c.CompletionTokens, "token")
	}
	ends := how(a)
	if other := how(b); other != ends {
		ends = "[-" + ends + "-]{+" + other + "+}"
	}
	body := ""
	switch {
	case a.Text != b.Text:
		body = d.cut(diffOf(a.Text, b.Text, d.full), 2400)
	case a.FinishReason == b.FinishReason:
		index := 0
		for index < min(len(a.TokenIDs), len(b.TokenIDs)) && a.TokenIDs[index] == b.TokenIDs[index] {
			index++
		}
		body = fmt.Sprintf("the texts are the same, the tokens differ from token %d on", index)
	default:
		body = "the texts are the same"
	}
	fmt.Fprintf(d.w, "  ± %d (%s)\n    %s\n", a.Generation, ends, strings.ReplaceAll(body, "\n", "\n    "))
}

// completionOf returns a completion of a row, nil if it has none.
func completionOf(row *review.Row, generation int) *promptset.Result {
	if row == nil {
		return nil
	}
	i := slices.IndexFunc(row.Completions, func(c promptset.Result) bool { return c.Generation == generation })
	if i < 0 {
		return nil
	}
	return &row.Completions[i]
}
