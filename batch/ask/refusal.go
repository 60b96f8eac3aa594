package ask

import (
	"errors"

	"github.com/quire/quire/engine"
)

func Refused(err error) bool {
	return errors.Is(err, engine.ErrEmptyPrompt) || errors.Is(err, engine.ErrPromptTooLong) ||
		errors.Is(err, engine.ErrInvalidRequest)
}
