package encode_test

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/encode"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/text/tokenizer"
)

// BenchmarkMiniLM embeds the lines of the glossary with all-MiniLM-L6-v2, from text to vectors.
func BenchmarkMiniLM(b *testing.B) {
	folder, err := setup.FindModel("minilm")
	if err != nil {
		b.Skip(err)
	}
	tok, err := tokenizer.Open(folder)
	if err != nil {
		b.Fatal(err)
	}
	model, err := models.Open(folder)
	if err != nil {
		b.Fatal(err)
	}
	defer model.Close()
	f, err := os.Open(testenv.Path("docs", "glossary.md"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var texts []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		texts = append(texts, strings.TrimSpace(lines.Text()))
	}
	e, err := encode.New(b.Context(), encode.Config{Model: model, Backend: testenv.XLA(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	requests := func(yield func(*engine.Request) bool) {
		for _, text := range texts {
			ids, err := tok.Encode(text, true)
			if err != nil {
				b.Error(err)
				return
			}
			if limit := model.Sentence.MaxTokens; len(ids) > limit {
				ids = append(ids[:limit-1:limit-1], ids[len(ids)-1])
			}
			if !yield(&engine.Request{Tokens: ids}) {
				return
			}
		}
	}
	tokens, before := 0, processorSeconds()
	for b.Loop() {
		for c, err := range e.Run(b.Context(), requests) {
			if err != nil || c.Err != nil {
				b.Fatal(err, c.Err)
			}
			tokens += c.PromptTokens
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(float64(tokens)/(processorSeconds()-before), "tokens/cpu-s")
	b.ReportMetric(float64(tokens)/float64(b.N), "tokens")
}

// processorSeconds is the time that processors have spent on this process.
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
