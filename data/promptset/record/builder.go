package record

import (
	"cmp"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/setting"
)

// Builder sets the fields of a row from its file, checks them, and records the first thing that is wrong with the
// row.
type Builder struct {
	*Row
	Made bool // Prompt comes from a template
	// PromptParam is the member of a batch file's line that has the prompt, and inBody reports whether parameters
	// come from the body of such a line. They are empty and false for other rows.
	PromptParam string
	InBody      bool
}

// Fail records the first thing wrong with a row.
func (r *Builder) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = r.Wrong(setting.Errorf(format, args...))
	}
}

// Blame sets what the first error of a row concerns, if judge finds the error.
func (r *Builder) Blame(param, code string, judge func()) {
	before := r.Err
	judge()
	if rowErr, _ := r.Err.(*RowError); before == nil && rowErr != nil && rowErr.Param == "" {
		rowErr.Param, rowErr.Code = param, cmp.Or(rowErr.Code, code)
	}
}

// Text checks a value that must be UTF-8.
func (r *Builder) Text(name string, b []byte) string {
	if !utf8.Valid(b) {
		r.Fail("%s is not valid UTF-8; re-encode it as UTF-8", name)
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return string(b)
}

// tokensName is what the row's file calls its tokens.
func (r *Builder) tokensName() string { return cmp.Or(r.PromptParam, "prompt_token_ids") }

// Token appends a token id.
func (r *Builder) Token(id int64) {
	if id < 0 || id > math.MaxInt32 {
		r.Fail("%s[%d] is %d; token ids are 0 to %d", r.tokensName(), len(r.TokenIDs), id,
			math.MaxInt32)
		return
	}
	r.TokenIDs = append(r.TokenIDs, int32(id))
}

// ParentNumber sets parent_generation or parent_length.
func (r *Builder) ParentNumber(name string, v jsonvalue.Number) {
	w, ok := v.Whole()
	if !ok || w.Big || w.Int < 0 || w.Int > math.MaxInt32 {
		r.Fail("%s is %v; give a whole number from 0 to %d", name, v, math.MaxInt32)
		return
	}
	n := int(w.Int)
	if name == "parent_length" {
		r.Parent.Length = &n
	} else {
		r.Parent.Generation = &n
	}
}

// Mistyped records a value of the wrong type.
func (r *Builder) Mistyped(format string, args ...any) {
	r.Blame("", openai.CodeInvalidType, func() { r.Fail(format, args...) })
}
