package verdict

import (
	"context"
	"sync"
)

// Judge has completions judged by a few goroutines, in the order in which they come. It never blocks those who submit:
// the bound of rows in flight bounds the queue.
type Judge struct {
	verifier Verifier
	ctx      context.Context // ended by Close
	end      context.CancelFunc
	workers  sync.WaitGroup

	mu      sync.Mutex
	more    sync.Cond
	waiting []question
	closed  bool
}

type question struct {
	completion *Completion
	tell       func(Verdict, error)
}

// NewJudge starts a judge that asks the verifier so many questions at once.
func NewJudge(v Verifier, atOnce int) *Judge {
	j := &Judge{verifier: v}
	j.more.L = &j.mu
	j.ctx, j.end = context.WithCancel(context.Background())
	for range atOnce {
		j.workers.Go(j.work)
	}
	return j
}

// Submit has a completion judged. tell is called by another goroutine, unless the judge is closed before that.
func (j *Judge) Submit(c *Completion, tell func(Verdict, error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = append(j.waiting, question{c, tell})
	j.more.Signal()
}

func (j *Judge) next() (q question, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.waiting) == 0 && !j.closed {
		j.more.Wait()
	}
	if j.closed {
		return q, false
	}
	q, j.waiting[0], j.waiting = j.waiting[0], question{}, j.waiting[1:]
	return q, true
}

func (j *Judge) work() {
	for {
		q, ok := j.next()
		if !ok {
			return
		}
		verdict, err := j.verifier.Verify(j.ctx, q.completion)
		if j.ctx.Err() != nil { // what failed because the judge is closed is no verdict
			return
		}
		q.tell(verdict, err)
	}
}

// Close ends what is being judged, drops what waits, and closes the verifier. After it nobody is told a verdict.
func (j *Judge) Close() error {
	j.mu.Lock()
	j.closed = true
	j.more.Broadcast()
	j.mu.Unlock()
	j.end()
	j.workers.Wait()
	return j.verifier.Close()
}
