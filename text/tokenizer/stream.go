package tokenizer

import "strings"

// Stream decodes tokens one at a time. The strings of all its calls, joined, are exactly Decode(ids, true). A character
// is returned once it is complete, and U+FFFD once its bytes are certain to be invalid. With a byte-fallback vocabulary
// (Llama 2) a run of byte tokens is returned at its end, because the whole run determines its text. A Stream is for one
// sequence and one goroutine.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	stages      []stage
	out         strings.Builder
}

// NewStream starts decoding a sequence, without special tokens.
func (t *Tokenizer) NewStream() *Stream { return t.newStream(true) }

// NewWholeStream is NewStream with special tokens: the strings, joined, are Decode(ids, false).
func (t *Tokenizer) NewWholeStream() *Stream { return t.newStream(false) }

func (t *Tokenizer) newStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial, stages: t.stages()}
}

// Push adds a token and returns the text that is certain by now, often "".
func (s *Stream) Push(id int32) string {
	s.feed(id)
	return s.take()
}

// Flush ends the sequence and returns what was held back. The Stream is then ready for a new sequence.
func (s *Stream) Flush() string {
	s.finish()
	s.stages = s.t.stages()
	return s.take()
}

// Mark inserts the special tokens of keep into text, which is the text of ids without special tokens or a prefix of it.
func (t *Tokenizer) Mark(ids []int32, text string, keep map[int32]bool) string {
	var out strings.Builder
	s, offset, written := t.NewStream(), 0, 0
	for _, id := range ids {
		if offset += len(s.Push(id)); keep[id] && offset <= len(text) {
			out.WriteString(text[written:offset])
			out.WriteString(t.Token(id))
			written = offset
		}
	}
	return out.String() + text[written:]
}

func (s *Stream) take() string {
	text := s.out.String()
	s.out.Reset()
	return text
}

func (s *Stream) feed(id int32) {
	if id < 0 || int(id) >= len(s.t.tokens) || !s.t.has[id] || s.skipSpecial && s.t.special[id] {
		return
	}
	s.through(0, s.t.tokens[id])
}

// through runs a token through the stages from number i on.
func (s *Stream) through(i int, token string) {
	if i == len(s.stages) {
		s.out.WriteString(token)
		return
	}
	s.stages[i].push(token, func(t string) { s.through(i+1, t) })
}

func (s *Stream) finish() {
	for i, st := range s.stages {
		st.flush(func(t string) { s.through(i+1, t) })
	}
}

// Decode returns the text of ids. It leaves out ids outside the vocabulary and, with skipSpecial, special tokens. Bytes
// that are not UTF-8 become U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.newStream(skipSpecial)
	for _, id := range ids {
		s.feed(id)
	}
	s.finish()
	return s.out.String()
}
