package xla

import (
	"testing"
	"time"

	"github.com/quire/quire/backend/xla/internal/opening"
)

// SetFirstWait shortens the time after which New reports what it waits for.
func SetFirstWait(t testing.TB, d time.Duration) {
	before := opening.FirstWait
	opening.FirstWait = d
	t.Cleanup(func() { opening.FirstWait = before })
}
