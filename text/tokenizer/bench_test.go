package tokenizer

import (
	"strings"
	"testing"
)

// BenchmarkStream turns tokens into text one at a time, as the engine's drain does.
func BenchmarkStream(b *testing.B) {
	tok := open(b, smollm2(b))
	ids, err := tok.Encode(strings.Join(corpus(b)[30:3000], "\n"), true)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := tok.NewStream()
		for _, id := range ids {
			s.Push(id)
		}
		s.Flush()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/token")
}
