package completion

import (
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/promptset/jsonvalue"
	"github.com/quire/quire/promptset/schema"
)

// Completion is a row of an output, valid until the next one is read.
type Completion struct {
	ID string
	Result

	ReadPrompt   func(column string) string // reads the column of the prompt, or those that may have one
	PromptColumn func() string              // the column of the prompt; nil or "" where its name says it

	Members []jsonvalue.Member // of a line
	Columns *schema.Node       // of a Parquet part, of which values has a row
	Values  parquet.Row
}

// NewCompletion returns a completion that is in no part yet; prompt gives what [Completion.Prompt] does.
func NewCompletion(id string, r Result, prompt func() string) *Completion {
	return &Completion{ID: strings.ToValidUTF8(id, "\uFFFD"), Result: r,
		ReadPrompt: func(string) string { return prompt() }}
}

// Prompt returns the prompt that is completed, as [record.Row.PromptText] does.
func (c *Completion) Prompt() string {
	column := ""
	if c.PromptColumn != nil {
		column = c.PromptColumn()
	}
	return c.ReadPrompt(column)
}
