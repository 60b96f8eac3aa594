package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/sentence"
)

// fakeSentence reads what a fake model's file says about embeddings: lines "embeds SIZE", "prompt NAME TEXT",
// "default NAME", "matryoshka SIZE", and the word "raw" for vectors that are not normalized.
func fakeSentence(text string) (s sentence.Settings, size int) {
	s = sentence.Settings{Pooling: sentence.Mean, Normalize: !strings.Contains(text, "raw"),
		Prompts: map[string]string{}, Stated: true}
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		number := 0
		if len(words) > 1 {
			fmt.Sscan(words[1], &number)
		}
		switch {
		case words[0] == "embeds":
			size = number
		case words[0] == "prompt" && len(words) == 3:
			s.Prompts[words[1]] = words[2]
		case words[0] == "default":
			s.DefaultPrompt = words[1]
		case words[0] == "matryoshka":
			s.Matryoshka.Dimensions = append(s.Matryoshka.Dimensions, number)
		}
	}
	return s, size
}

// fakeEncoder makes the session of an embed job encode: a text ends with a special token, too.
func fakeEncoder(j *spec.Job, s *process.Session, e *fakeEngine) {
	text, err := os.ReadFile(j.Model)
	if err != nil {
		panic(err)
	}
	if _, e.vectors = fakeSentence(string(text)); j.Task != completion.Embed {
		e.vectors = len(fakeClassifier(string(text)).Labels)
	}
	encode := s.Encode
	s.Ends = 1
	s.EncodePair = func(a, b string, most int) ([]int32, int, bool, error) {
		first, _ := s.Encode(a, true)
		other, _ := encode(b, false)
		room := max(0, most-len(first)-1)
		truncated := most > 0 && len(other) > room
		if truncated {
			other = other[:room]
		}
		return slices.Concat(first, other, []int32{256}), len(first), truncated, nil
	}
	s.Encode = func(text string, special bool) ([]int32, error) {
		ids, err := encode(text, special)
		if special {
			ids = append(ids, 256)
		}
		return ids, err
	}
}

// fakeClassifier reads what a fake model's file says about its head: a line "labels NAME NAME ...", and perhaps lines
// "problem TYPE" and "function NAME". It is nil without labels.
func fakeClassifier(text string) *arch.Classifier {
	c := &arch.Classifier{}
	for line := range strings.Lines(text) {
		switch words := strings.Fields(line); {
		case len(words) > 1 && words[0] == "labels":
			c.Labels = words[1:]
		case len(words) == 2 && words[0] == "problem":
			c.Problem = words[1]
		case len(words) == 2 && words[0] == "function":
			c.Function = words[1]
		}
	}
	if c.Labels == nil {
		return nil
	}
	return c
}

// fakeVector is the vectors of a request's sequences, each of which depends on its tokens alone.
func fakeVector(r *engine.Request, size int) (vectors []float32) {
	rows := [][]int32{r.Tokens}
	if len(r.Sequences) > 0 {
		rows = nil
	}
	for _, s := range r.Sequences {
		rows = append(rows, s.Tokens)
	}
	for _, tokens := range rows {
		for i := range size {
			sum := sha256.Sum256(fmt.Append(nil, i, tokens))
			vectors = append(vectors, float32(int32(binary.LittleEndian.Uint32(sum[:])))/math.MaxInt32)
		}
	}
	return vectors
}
