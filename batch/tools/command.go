package tools

import (
	"context"
	"time"

	"github.com/quire/quire/batch/coprocess"
)

// Answerer answers the calls of a tool. Its methods may be called from several goroutines.
type Answerer interface {
	// Ask returns the answer to the JSON of a call.
	Ask(ctx context.Context, question []byte) ([]byte, error)
	Close() error
}

// newCommand returns the processes of a tool's command.
func newCommand(t *Tool) Answerer {
	o := coprocess.Options{Command: t.Command, Processes: t.Parallel, Timeout: time.Duration(t.Timeout),
		MaxAnswer: int(t.MaxOutput), Memory: int64(t.Memory), Attempts: 1}
	if t.Idempotent {
		o.Attempts = 2
	}
	return coprocess.New(o)
}
