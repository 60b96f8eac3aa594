package ask

import (
	"errors"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/engine"
)

// paramError is an error about a member of a row, with OpenAI's code for it.
type paramError struct {
	error
	param, code string
}

func (e *paramError) Unwrap() error { return e.error }

// ParamOf returns which member of a batch file's line an error is about, and its code by OpenAI's names; empty if
// that is not known.
func ParamOf(row *promptset.Row, err error) (param, code string) {
	var (
		own     *paramError
		ofRow   *promptset.RowError
		ofRange *parameter.RangeError
		ofField interface{ Parameter() string }
	)
	switch {
	case errors.As(err, &own):
		return own.param, own.code
	case errors.As(err, &ofRow):
		return ofRow.Param, ofRow.Code
	case errors.As(err, &ofRange):
		return row.ParameterName(ofRange.Field), openai.CodeInvalidValue
	case errors.As(err, &ofField):
		return row.ParameterName(ofField.Parameter()), openai.CodeInvalidValue
	case errors.Is(err, engine.ErrPromptTooLong):
		return requests.Of(row).PromptParam(), openai.CodeTooLong
	case errors.Is(err, engine.ErrEmptyPrompt):
		return requests.Of(row).PromptParam(), openai.CodeInvalidValue
	}
	return "", ""
}
