package schedule

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Stream turns tokens into text, without splitting a character.
type Stream interface {
	Push(token int32) string
	Flush() string
}

// completionText is a completion as far as its tokens were read from the device, with their text. After init only the
// drain touches it.
type completionText struct {
	newStream  func(*Request) Stream // nil: no text
	stream     Stream
	text       strings.Builder
	completion Completion
	// ended is set with the token or the stop string that ends the completion. Later tokens in the output of the same
	// call, and of the call that ran meanwhile, are dropped.
	ended bool
	told  int // tokens that Request.Told has received
}

func (d *completionText) init(newStream func(*Request) Stream, r *Request) {
	if d.newStream = newStream; newStream != nil {
		d.stream = newStream(r)
	}
	d.completion = Completion{Request: r}
}

// noteWeights records the version of the weights that generate the next token.
func (d *completionText) noteWeights(version string) {
	runs := d.completion.Weights
	if n := len(runs); n == 0 || runs[n-1].Version != version {
		d.completion.Weights = append(runs, WeightsRun{len(d.completion.Tokens), version})
	}
}

// tell reports the progress of an unfinished completion.
func (d *completionText) tell(generation int) {
	n := len(d.completion.Tokens)
	if d.ended || n == d.told {
		return
	}
	d.told = n
	text := d.text.String()
	text = text[:len(text)-partOfStop(text, d.completion.Request.Stop)]
	d.completion.Request.Told(Partial{generation, d.completion.Tokens[:n:n], text})
}

// partOfStop returns how many bytes at the end of a text may be the beginning of a stop string.
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

// appendTops appends the likeliest tokens at a place of the output, if the request asks for them.
func (d *completionText) appendTops(output *Output, place int) {
	n := d.completion.Request.Tops
	if n == 0 {
		return
	}
	width := len(output.TopIDs) / len(output.Tokens)
	d.completion.TopIDs = append(d.completion.TopIDs, slices.Clone(output.TopIDs[place*width:place*width+n]))
	d.completion.TopLogprobs = append(d.completion.TopLogprobs,
		slices.Clone(output.TopLogprobs[place*width:place*width+n]))
}

// appendExperts appends the experts at a place of the output, if they are reported.
func (d *completionText) appendExperts(output *Output, place int) {
	width := len(output.Experts) / len(output.Tokens)
	for _, pair := range output.Experts[place*width : (place+1)*width] {
		d.completion.Experts = append(d.completion.Experts, uint16(pair))
		if second := uint16(pair >> 16); second != NoExpert {
			d.completion.Experts = append(d.completion.Experts, second)
		}
	}
}

// appendHidden appends the hidden states at a place of the output, if they are reported.
func (d *completionText) appendHidden(output *Output, place int) {
	if d.completion.Request.LastHidden {
		d.completion.Hidden = d.completion.Hidden[:0]
	}
	width := len(output.Hidden) / len(output.Tokens)
	for _, n := range output.Hidden[place*width : (place+1)*width] {
		d.completion.Hidden = binary.LittleEndian.AppendUint32(d.completion.Hidden, uint32(n))
	}
}

// appendToken appends the text of the last token. The text of a token that ends the completion is dropped, unless
// the request asks for it or a stop string ends within it.
func (d *completionText) appendToken(token int32, finish Finish, check bool) error {
	r := d.completion.Request
	ends := finish == AtStopToken && !r.IncludeStop
	if d.stream == nil || ends && (r.KeepSpecial || len(r.Stop) == 0 || r.OnDevice && !check) {
		return nil
	}
	if err := d.appendText(d.stream.Push(token), finish, check); err != nil || !ends || d.ended {
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

// appendText appends text. It looks for stop strings if the device does not, and if the device found one.
func (d *completionText) appendText(text string, finish Finish, check bool) error {
	if onDevice := d.completion.Request.OnDevice; onDevice && finish != AtStopString && !check {
		d.text.WriteString(text)
	} else if found := d.push(text); onDevice && found != (finish == AtStopString) {
		return fmt.Errorf("%w: after token %d of a completion, stop strings %q, text %q", ErrStops,
			len(d.completion.Tokens), d.completion.Request.Stop, d.text.String())
	}
	return nil
}

// push appends text and reports whether a stop string that ends in this text ends the completion. In the text of the
// first MinTokens tokens none does.
func (d *completionText) push(text string) bool {
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
