package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// Stream turns tokens into text, without splitting a character.
type Stream interface {
	Push(token int32) string
	Flush() string
}

// drainState is a completion as far as it was read from the device. Only the drain touches it.
type drainState struct {
	newStream  func(*Request) Stream // nil: no text
	stream     Stream
	text       strings.Builder
	completion Completion
	ended      bool
	told       int // tokens, of Request.Told
}

func (d *drainState) init(newStream func(*Request) Stream, r *Request) {
	if d.newStream = newStream; newStream != nil {
		d.stream = newStream(r)
	}
	d.completion = Completion{Request: r}
}

// result is what a call drew, and for whom.
type result struct {
	owners []*sequence // by the ids of Output.Owners
	got    *Output
}

// drain appends what a call drew to its completions and passes on those that ended. With check it looks for stop
// strings also where the device does.
func (r *result) drain(check bool, emit func(*Completion)) error {
	got := r.got
	var followed []*sequence // of which somebody is told
	for at, id := range got.Owners {
		if id < 0 || r.owners[id].drain.ended {
			continue
		}
		seq, finish := r.owners[id], Finish(got.Finish[at])
		d := &seq.drain
		// Where the scores were not numbers there is no token.
		if token := got.Tokens[at]; token >= 0 && !d.completion.Request.ScoresOnly {
			d.tops(got, at)
			d.completion.Tokens = append(d.completion.Tokens, token)
			d.completion.Logprobs = append(d.completion.Logprobs, got.Logprobs[at])
			// A distribution of a few quanta of the sampler's integer weights is rounded by more than it has.
			d.completion.ProcessedLogprobs = append(d.completion.ProcessedLogprobs, min(got.Processed[at], 0))
			if err := d.takeToken(seq, token, finish, check); err != nil {
				return err
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
		seq.drain.tell(seq.generation)
	}
	return nil
}

// tell tells what a completion that goes on has come to.
func (d *drainState) tell(generation int) {
	n := len(d.completion.Tokens)
	if d.ended || n == d.told {
		return
	}
	d.told = n
	text := d.text.String()
	text = text[:len(text)-partOfStop(text, d.completion.Request.Stop)]
	d.completion.Request.Told(Partial{generation, d.completion.Tokens[:n:n], text})
}

// partOfStop is how many bytes at the end of a text a stop string may begin with.
func partOfStop(text string, stops []string) (most int) {
	for _, stop := range stops {
		for n := min(len(stop)-1, len(text)); n > most; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				most = n
			}
		}
	}
	return most
}

// tops appends the likeliest tokens at a place of the output, where the request asks for them.
func (d *drainState) tops(got *Output, at int) {
	n := d.completion.Request.Tops
	if n == 0 {
		return
	}
	width := len(got.TopIDs) / len(got.Tokens)
	d.completion.TopIDs = append(d.completion.TopIDs, slices.Clone(got.TopIDs[at*width:at*width+n]))
	d.completion.TopLogprobs = append(d.completion.TopLogprobs, slices.Clone(got.TopLogprobs[at*width:at*width+n]))
}

// takeToken appends the text of the token drawn last. The text of a token that ends the completion is dropped, unless
// the request asks for it or a stop string ends within it.
func (d *drainState) takeToken(seq *sequence, token int32, finish Finish, check bool) error {
	r := d.completion.Request
	ends := finish == AtStopToken && !r.IncludeStop
	if d.stream == nil || ends && (r.KeepSpecial || len(r.Stop) == 0 || r.OnDevice && !check) {
		return nil
	}
	if err := d.take(seq, d.stream.Push(token), finish, check); err != nil || !ends || d.ended {
		return err
	}
	// The stream may have held back text of earlier tokens.
	d.stream = d.newStream(r)
	d.text.Reset()
	for _, earlier := range d.completion.Tokens[:len(d.completion.Tokens)-1] {
		d.text.WriteString(d.stream.Push(earlier))
	}
	return nil
}

// take appends text. It looks for stop strings where the device does not, and where the device found
// one.
func (d *drainState) take(seq *sequence, text string, finish Finish, check bool) error {
	if onDevice := d.completion.Request.OnDevice; onDevice && finish != AtStopString && !check {
		d.text.WriteString(text)
	} else if found := d.push(text); onDevice && found != (finish == AtStopString) {
		return fmt.Errorf("%w: behind token %d of a completion, stop strings %q, text %q", ErrStops,
			len(d.completion.Tokens), d.completion.Request.Stop, d.text.String())
	} else if found && finish == Running {
		seq.cancelled.Store(true)
	}
	return nil
}

// push appends text, and says whether a stop string ended the completion: one that ends in this text, where that is of
// tokens after the first MinTokens.
func (d *drainState) push(text string) bool {
	old := d.text.Len()
	d.text.WriteString(text)
	r := d.completion.Request
	if len(r.Stop) == 0 || text == "" || len(d.completion.Tokens) <= r.MinTokens {
		return false
	}
	all := d.text.String()
	first, end := -1, 0
	for _, stop := range r.Stop {
		from := max(0, old-len(stop)+1)
		if i := strings.Index(all[from:], stop); stop != "" && i >= 0 && (first < 0 || from+i < first) {
			first, end = from+i, from+i+len(stop)
		}
	}
	if first < 0 {
		return false
	}
	if !r.IncludeStop {
		end = first
	}
	d.text.Reset()
	d.text.WriteString(all[:end])
	d.ended = true
	d.completion.Finish = AtStopString
	return true
}
