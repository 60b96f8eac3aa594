package completion

import (
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/schema"
)

// Completion is a row of an output, valid until the next one is read.
type Completion struct {
	ID string
	Result

	ReadPrompt   func(column string) string // reads the column of the prompt, or the columns that may have one
	PromptColumn func() string              // the column of the prompt; nil or "" if it has its standard name

	Members []jsonvalue.Member // members of a line
	Columns *schema.Node       // columns of a Parquet part; values has a row of them
	Values  parquet.Row
}

// NewCompletion returns a completion that is not in a part yet; prompt returns the value of [Completion.Prompt].
func NewCompletion(id string, r Result, prompt func() string) *Completion {
	return &Completion{ID: strings.ToValidUTF8(id, "\uFFFD"), Result: r,
		ReadPrompt: func(string) string { return prompt() }}
}

// Prompt returns the completion's prompt, as [record.Row.PromptText] does.
func (c *Completion) Prompt() string {
	column := ""
	if c.PromptColumn != nil {
		column = c.PromptColumn()
	}
	return c.ReadPrompt(column)
}
