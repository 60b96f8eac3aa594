package promptset

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// What the host does alongside the device: at some thousand tokens a second, a row of 128 tokens may take
// milliseconds.
const (
	benchRows   = 1000
	benchTokens = 128
)

func benchInput(b *testing.B) string {
	var lines strings.Builder
	for i := range benchRows {
		fmt.Fprintf(&lines, "{\"id\":\"row-%d\",\"prompt\":%q,\"topic\":\"bench\",\"k\":%d}\n", i,
			strings.Repeat("some words of a question ", 10), i)
	}
	return write(b, "in.jsonl", lines.String())
}

// benchRequests is the same as a batch file of OpenAI, whose answers have log-probabilities.
func benchRequests(b *testing.B) string {
	var lines strings.Builder
	for i := range benchRows {
		fmt.Fprintf(&lines, `{"custom_id":"row-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m",`+
			`"logprobs":true,"max_tokens":128,"messages":[{"role":"user","content":%q}]}}`+"\n", i,
			strings.Repeat("some words of a question ", 10))
	}
	return write(b, "in.jsonl", lines.String())
}

func benchResult(row *Row) []Result {
	r := Result{Text: strings.Repeat("word ", benchTokens), FinishReason: "length", PromptTokens: 60,
		CompletionTokens: benchTokens}
	for i := range benchTokens {
		r.TokenIDs = append(r.TokenIDs, int32(row.Index*31+int64(i)*7919)%49152)
		r.Logprobs = append(r.Logprobs, -float32(i)/7)
	}
	return []Result{r}
}

func benchWrite(b *testing.B, format, input string) (folder string) {
	r := open(b, input)
	in := rows(b, r)
	out := make([][]Result, len(in))
	for i, row := range in {
		out[i] = benchResult(row)
	}
	base, n := b.TempDir(), 0
	for b.Loop() {
		folder = filepath.Join(base, fmt.Sprint(n))
		n++
		w := create(b, folder, r, WriterOptions{Format: format})
		for i, row := range in {
			if err := w.Add(row, out[i]); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/benchRows, "us/row")
	return folder
}

func BenchmarkWriteParquet(b *testing.B) { benchWrite(b, FormatParquet, benchInput(b)) }

func BenchmarkWriteJSONL(b *testing.B) { benchWrite(b, FormatJSONL, benchInput(b)) }

func BenchmarkWriteAnswers(b *testing.B) { benchWrite(b, FormatOpenAI, benchRequests(b)) }

func benchRead(b *testing.B, path string) {
	for b.Loop() {
		if got := len(rows(b, open(b, path))); got != benchRows {
			b.Fatalf("%d rows", got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/benchRows, "us/row")
}

func BenchmarkReadJSONL(b *testing.B) { benchRead(b, benchInput(b)) }

func BenchmarkReadRequests(b *testing.B) { benchRead(b, benchRequests(b)) }

func BenchmarkReadParquet(b *testing.B) {
	r := open(b, benchInput(b))
	folder := filepath.Join(b.TempDir(), "out")
	w := create(b, folder, r, WriterOptions{})
	for _, row := range rows(b, r) {
		if err := w.Add(row, benchResult(row)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	benchRead(b, filepath.Join(folder, "part-00000.parquet"))
}
