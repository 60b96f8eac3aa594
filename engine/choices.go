package engine

import (
	"iter"
	"sync"
)

// decisions are the requests under way that ask for the probabilities of choices.
type decisions struct {
	mu   sync.Mutex             // guards open: requests are taken by another goroutine than their completions
	open map[*Request]*decision // by the request, and by each that scores it
}

// decision is a request with choices. It is run as itself and as the requests that score its choices, and its
// completions are held until the scores are there. The goroutine that takes completions owns it.
type decision struct {
	request  *Request
	parts    []*Request // that score it
	scores   map[*Request]*Completion
	held     []*Completion // of the request itself
	waits    int           // completions that are still to come, of all these requests
	logprobs []float64     // of the choices, once all are scored, or err: why there are none
	err      error
}

// decided runs requests of which some may have choices.
func decided(requests iter.Seq[*Request], run func(iter.Seq[*Request]) iter.Seq2[*Completion, error]) iter.Seq2[
	*Completion, error] {
	d := &decisions{open: map[*Request]*decision{}}
	return func(yield func(*Completion, error) bool) {
		for c, err := range run(d.requests(requests)) {
			ready := []*Completion{c}
			if err == nil {
				ready = d.take(c)
			}
			for _, one := range ready {
				if !yield(one, err) {
					return
				}
			}
		}
	}
}

// requests are the requests as they are run.
func (d *decisions) requests(all iter.Seq[*Request]) iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for r := range all {
			parts := r.Scored()
			if len(parts) > 0 {
				d.add(&decision{request: r, parts: parts, scores: map[*Request]*Completion{}, waits: r.N + len(parts)})
			}
			for _, one := range append([]*Request{r}, parts...) {
				if !yield(one) {
					return
				}
			}
		}
	}
}

func (d *decisions) add(one *decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[one.request] = one
	for _, part := range one.parts {
		d.open[part] = one
	}
}

// take takes a completion of one of the requests that are run, and returns the completions that are ready.
func (d *decisions) take(c *Completion) (ready []*Completion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.open[c.Request]
	if one == nil {
		return []*Completion{c}
	}
	if ready = one.take(c); one.waits == 0 {
		delete(d.open, one.request)
		for _, part := range one.parts {
			delete(d.open, part)
		}
	}
	return ready
}

func (d *decision) take(c *Completion) (ready []*Completion) {
	d.waits--
	switch {
	case c.Request != d.request:
		d.scores[c.Request] = c
	case c.Refused: // it stands for all completions, and the scores are for nobody
		d.waits -= d.request.N - 1
		return []*Completion{c}
	default:
		d.held = append(d.held, c)
	}
	if len(d.scores) < len(d.parts) || len(d.held) == 0 {
		return nil
	}
	if d.logprobs == nil && d.err == nil {
		scored := make([]*Completion, len(d.parts))
		for i, part := range d.parts {
			scored[i] = d.scores[part]
		}
		d.logprobs, d.err = d.request.ChoiceLogprobs(scored)
	}
	ready, d.held = d.held, nil
	for _, one := range ready {
		if one.Err == nil && d.err != nil {
			one.FinishReason, one.Err = FinishError, d.err
		} else if one.Err == nil {
			one.ChoiceLogprobs = d.logprobs
		}
	}
	return ready
}
