package xla

import (
	"testing"
	"time"
)

// SetFirstWait shortens the time after which New says what it waits for.
func SetFirstWait(t testing.TB, d time.Duration) {
	before := firstWait
	firstWait = d
	t.Cleanup(func() { firstWait = before })
}
