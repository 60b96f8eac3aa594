package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
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
	_, e.vectors = fakeSentence(string(text))
	encode := s.Encode
	s.Ends = 1
	s.Encode = func(text string, special bool) ([]int32, error) {
		ids, err := encode(text, special)
		if special {
			ids = append(ids, 256)
		}
		return ids, err
	}
}

// fakeVector is a vector that depends on the tokens alone.
func fakeVector(r *engine.Request, size int) []float32 {
	vector := make([]float32, size)
	for i := range vector {
		sum := sha256.Sum256(fmt.Append(nil, i, r.Tokens))
		vector[i] = float32(int32(binary.LittleEndian.Uint32(sum[:]))) / math.MaxInt32
	}
	return vector
}
