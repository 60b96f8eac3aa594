package engine

import (
	"fmt"
	"strings"

	"github.com/quire/quire/tokenizer"
)

// drainState is a completion as far as it was read from the device. Only the drain touches it.
type drainState struct {
	stream     *tokenizer.Stream
	text       strings.Builder
	longest    int // bytes of the longest stop string
	completion Completion
	ended      bool
}

func (d *drainState) init(e *Engine, f *family) {
	if e.cfg.Tokenizer != nil {
		d.stream = e.cfg.Tokenizer.NewStream()
	}
	for _, s := range f.req.Stop {
		d.longest = max(d.longest, len(s))
	}
	d.completion = Completion{Request: f.asked, PromptTokens: len(f.req.Tokens)}
}

// drain appends what a call drew to its completions and passes on those that ended.
func (e *Engine) drain(r *result, emit func(*Completion)) {
	owners, finish, tokens := r.got.Owners, r.got.Finish, r.got.Tokens
	logprobs, processed := r.got.Logprobs, r.got.Processed
	for at, id := range owners {
		if id < 0 || r.owners[id].drain.ended {
			continue
		}
		seq := r.owners[id]
		d := &seq.drain
		if tokens[at] >= 0 { // else the scores were not numbers: there is no token
			d.completion.Tokens = append(d.completion.Tokens, tokens[at])
			d.completion.Logprobs = append(d.completion.Logprobs, logprobs[at])
			d.completion.ProcessedLogprobs = append(d.completion.ProcessedLogprobs, processed[at])
			if d.stream != nil && d.push(d.stream.Push(tokens[at])) {
				seq.cancelled.Store(true)
			}
		}
		switch code := finish[at]; {
		case d.ended:
		case code == running:
			continue
		case code == finishedNaN:
			d.completion.FinishReason = FinishError
			d.completion.Err = fmt.Errorf("%w after %d tokens: the weights may not fit the dtype, try --dtype float32",
				ErrNotANumber, len(d.completion.Tokens))
		default:
			d.completion.FinishReason = FinishLength
			if code == finishedStop {
				d.completion.FinishReason = FinishStop
			}
			if d.stream != nil {
				d.push(d.stream.Flush())
			}
		}
		d.ended = true
		d.completion.Generation = seq.generation
		d.completion.Text = d.text.String()
		emit(&d.completion)
	}
}

// push appends text, and says whether a stop string ended the completion.
func (d *drainState) push(text string) bool {
	from := max(0, d.text.Len()-d.longest+1)
	d.text.WriteString(text)
	if d.longest == 0 || text == "" {
		return false
	}
	all := d.text.String()
	first := -1
	for _, stop := range d.completion.Request.Stop {
		if i := strings.Index(all[from:], stop); stop != "" && i >= 0 && (first < 0 || from+i < first) {
			first = from + i
		}
	}
	if first < 0 {
		return false
	}
	d.text.Reset()
	d.text.WriteString(all[:first])
	d.ended = true
	d.completion.FinishReason = FinishStop
	return true
}
