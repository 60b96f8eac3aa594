package resume

import (
	"net/http"
	"strings"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/engine"
)

// StatusOf is the HTTP status that the text of a row's error stands for. It goes by the text since that is all that the
// journal has of an error, from which a resumed job answers too.
func StatusOf(text string) int {
	switch {
	case strings.Contains(text, engine.ErrNotANumber.Error()):
		return http.StatusInternalServerError
	case strings.HasPrefix(text, ask.NoModel):
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
