package prepare

import (
	"context"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
)

const (
	// readableBytes are the most bytes of inputs that are read only to learn how long their rows are.
	readableBytes = 256 << 20
	// leastLimit is the least limit of a sequence that is taken from rows. Limits are powers of two, so that jobs with
	// rows of much the same length have the same programs.
	leastLimit = 128
)

// LimitOfRows returns the limit of a sequence's tokens, prompt and completion together, that suffices for all rows of a
// job; 0 if they may need the model's own. It returns false if rows do not decide: the job has a limit, the platform's
// page tables may have any size, or it is not known beforehand how long rows get.
//
// No byte of the output depends on the limit: no row reaches it, unless it reaches the model's own.
func LimitOfRows(ctx context.Context, p *process.Process, opened *Opened) (limit int, ok bool, err error) {
	j := opened.Job
	if j.Engine.MaxModelLen > 0 || backend.Named(j.Engine.Backend).ScalarMemory == 0 || !hasKnownLengths(j, opened) {
		return 0, false, nil
	}
	s, err := p.Models.OpenSession(ctx, j, p.ForText())
	if err != nil {
		return 0, false, err
	}
	defer s.Release()
	most := s.Config.MaxPositions
	s.Sampler = process.NoEngine(engine.Plan{MaxModelLen: most})
	builder, longest := process.NewBuilder(j, s), 0
	for row := range opened.Reader.Range(ctx, 0, opened.Parts.Rows) {
		if row.Err == nil && builder.Parameters(row).TruncatePromptTokens == -1 {
			return 0, true, nil // it keeps what the limit leaves
		}
		requests, err := builder.Requests(row, nil)
		if err != nil {
			continue // the row is not run
		}
		for _, r := range requests {
			if len(r.Choices) > 0 {
				return 0, true, nil
			}
			if longest = max(longest, r.PromptTokens()+r.MaxTokens+1); longest > most {
				return 0, true, nil
			}
		}
	}
	if err := opened.Reader.Err(); err != nil {
		return 0, false, err
	}
	for limit = leastLimit; limit < longest; {
		limit *= 2
	}
	if limit >= most {
		return 0, true, nil
	}
	p.Statusf("`max-model-len` is %d, since no row and its completion has more than %d tokens; the model's own limit "+
		"is %d", limit, longest, most)
	return limit, true, nil
}

// hasKnownLengths reports whether the rows of a job can be read now and nothing that is generated makes them longer.
func hasKnownLengths(j *spec.Job, opened *Opened) bool {
	if j.Encodes() || j.ReadsStandard() || j.Tools.Used() || opened.Reader.HasParents() {
		return false
	}
	var bytes int64
	for _, source := range opened.Reader.Sources() {
		bytes += source.Bytes
	}
	return bytes <= readableBytes
}
