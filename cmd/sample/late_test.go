package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quire/quire/internal/testenv"
)

// The vectors of tokens equal sentence-transformers' MultiVectorEncoder's, for queries and documents, of checkpoints in
// each of the forms that these are saved in: see scripts/oracle/tiny_late.py.
func TestVectorsOfTokens(t *testing.T) {
	path, err := exec.LookPath("real-sample")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"colbert", "colbert-pylate", "colbert-modern"} {
		t.Run(name, func(t *testing.T) {
			model := testenv.Path("testdata", "encoders", name)
			type row struct {
				Prompt string      `json:"prompt"`
				Want   [][]float32 `json:"-"`
				Got    [][]float32 `json:"embeddings,omitempty"`
			}
			rows := map[string][]row{}
			for _, c := range lateGoldens(t, model) {
				rows[c.Side] = append(rows[c.Side], row{Prompt: c.Text, Want: c.Vectors})
			}
			for side, rows := range rows {
				dir := t.TempDir()
				var input bytes.Buffer
				for _, r := range rows {
					line, _ := json.Marshal(r)
					fmt.Fprintf(&input, "%s\n", line)
				}
				if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), input.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
				command := exec.Command(path, "embed", "-m", model, "--multi-vector", "--prompt-name", side, "-i",
					"in.jsonl", "-o", "out", "--format", "jsonl", "--dtype", "float32", "-q")
				command.Dir = dir
				if out, err := command.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", side, err, out)
				}
				written, err := os.ReadFile(filepath.Join(dir, "out", "part-00000.jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				lines := bytes.SplitAfter(written, []byte("\n"))
				for i, want := range rows {
					var got row
					if err := json.Unmarshal(lines[i], &got); err != nil {
						t.Fatal(err)
					}
					if len(got.Got) != len(want.Want) {
						t.Errorf("%s %q has %d vectors, want %d", side, want.Prompt, len(got.Got), len(want.Want))
						continue
					}
					for token := range want.Want {
						for k, x := range want.Want[token] {
							if d := math.Abs(float64(got.Got[token][k] - x)); !(d < 2e-5) {
								t.Fatalf("%s %q: number %d of vector %d is %g, want %g", side, want.Prompt, k, token,
									got.Got[token][k], x)
							}
						}
					}
				}
			}
		})
	}
}

// lateGolden is what sentence-transformers makes of a text.
type lateGolden struct {
	Side, Text string
	Vectors    [][]float32
}

func lateGoldens(t *testing.T, model string) (list []lateGolden) {
	t.Helper()
	f, err := os.Open(filepath.Join(model, "vectors.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}
