package schedule

import (
	"slices"
	"sync/atomic"
)

// drain turns the tokens of calls into completions, on a goroutine of its own, while the next call runs.
type drain struct {
	cfg *Config
	out chan<- *Completion
	// results has room for two calls: the run does not wait for text unless the drain is slower than the device.
	results chan *result
	read    chan struct{} // receives after each result, with Config.InOrder
	done    chan int      // receives the number of tokens that came out, once
	// fault is the first error of the drain's goroutine. The run's goroutine reads it before each call and ends the
	// run.
	fault atomic.Pointer[error]
}

// startDrain starts the goroutine of a drain. Its owner must end it with close.
func startDrain(cfg *Config, out chan<- *Completion) *drain {
	d := &drain{cfg: cfg, out: out, results: make(chan *result, 2), read: make(chan struct{}), done: make(chan int, 1)}
	go d.run()
	return d
}

func (d *drain) run() {
	tokens := 0
	for r := range d.results {
		if r.read != nil {
			close(r.read)
			continue
		}
		end, completions := d.cfg.span(DrainTrack, "drain"), 0
		err := r.drain(d.cfg.Debug, func(done *Completion) {
			tokens += len(done.Tokens)
			completions++
			d.out <- done
		})
		end("completions", completions)
		if err != nil {
			d.fault.Store(&err)
		}
		if d.cfg.InOrder {
			d.read <- struct{}{}
		}
	}
	d.done <- tokens
}

// pass hands over the output of a call.
func (d *drain) pass(r *result) {
	d.results <- r
	if d.cfg.InOrder {
		<-d.read
	}
}

// wait waits until all that was passed is read.
func (d *drain) wait() {
	read := make(chan struct{})
	d.results <- &result{read: read}
	<-read
}

// failure returns the error of the drain, if there is one by now.
func (d *drain) failure() error {
	if fault := d.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// close waits until all completions came out and returns the number of their tokens.
func (d *drain) close() (tokens int) {
	close(d.results)
	return <-d.done
}

// result is the output of a call with the owners of its tokens.
type result struct {
	owners  []*sequence // owners by the ids of Output.Owners
	output  *Output
	weights string        // the version of the weights of the call
	read    chan struct{} // closed by the drain when it comes to this result, which has nothing else; nil in others
}

// takeStates gives completions the hidden states after their prompts.
func (r *result) takeStates() {
	states := &r.output.States
	if len(states.Count) == 0 {
		return
	}
	size := len(states.Numbers) / len(states.Owners)
	for i := range int(states.Count[0]) {
		if seq := r.owners[states.Owners[i]]; !seq.text.ended && seq.text.completion.State == nil {
			seq.text.completion.State = slices.Clone(states.Numbers[i*size : (i+1)*size])
		}
	}
}

// drain appends the tokens of a call to their completions and emits the completions that ended. With check it looks for
// stop strings even if the device does.
func (r *result) drain(check bool, emit func(*Completion)) error {
	output := r.output
	r.takeStates()
	var followed []*sequence // those with Request.Told
	for place, id := range output.Owners {
		if id < 0 || r.owners[id].text.ended {
			continue
		}
		seq, finish := r.owners[id], Finish(output.Finish[place])
		d := &seq.text
		d.noteWeights(r.weights)
		// There is no token if the scores were not numbers.
		if token := output.Tokens[place]; token >= 0 && !d.completion.Request.ScoresOnly {
			d.appendTops(output, place)
			d.appendExperts(output, place)
			d.appendHidden(output, place)
			d.completion.Tokens = append(d.completion.Tokens, token)
			d.completion.Logprobs = append(d.completion.Logprobs, output.Logprobs[place])
			// A distribution of a few quanta of the sampler's integer weights is rounded by more than it has.
			d.completion.ProcessedLogprobs = append(d.completion.ProcessedLogprobs, min(output.Processed[place], 0))
			for m, values := range output.Measures {
				if values != nil {
					d.completion.Measures[m] = append(d.completion.Measures[m], values[place])
				}
			}
			if err := d.appendToken(token, finish, check); err != nil {
				return err
			}
			if d.ended && finish == Running { // the device does not know
				seq.cancelled.Store(true)
			}
		}
		if !d.ended {
			if finish == Running {
				if d.completion.Request.Told != nil && !slices.Contains(followed, seq) {
					followed = append(followed, seq)
				}
				continue
			}
			d.completion.Finish = finish
			if d.stream != nil && finish != NotANumber {
				d.push(d.stream.Flush())
			}
		}
		d.ended = true
		d.completion.Generation = seq.generation
		d.completion.Text = d.text.String()
		if d.completion.Prompt = seq.group.scores; d.completion.Prompt != nil && d.completion.Prompt.notNumbers() {
			d.completion.Finish = NotANumber
		}
		emit(&d.completion)
	}
	for _, seq := range followed {
		seq.text.tell(seq.generation)
	}
	return nil
}
