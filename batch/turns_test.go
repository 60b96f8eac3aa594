package batch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/process"
)

// Turns of conversations that continue through parent run the prompt tokens that no page holds, and no others: a turn's
// pages hold its prompt and its completion but for the last token, which was generated and not run.
func TestTurnsRunWhatNoPageHolds(t *testing.T) {
	const conversations, turns = 8, 4
	spec := smallSpec(t, 1)
	spec.Engine.MaxSeqs, spec.Engine.PageSize, spec.Engine.KVMemory = 4, 8, 8<<20
	var text strings.Builder
	for turn := range turns {
		for c := range conversations {
			var tokens []string
			for i := range 8 + 2*c + turn {
				tokens = append(tokens, fmt.Sprint((7*i+29*c+13*turn)%200))
			}
			parent := ""
			if turn > 0 {
				parent = fmt.Sprintf(`"parent": "%d-%d", `, c, turn-1)
			}
			fmt.Fprintf(&text, `{"id": "%d-%d", %s"prompt_token_ids": [%s], "temperature": 1, "max_tokens": %d, `+
				`"ignore_eos": true}`+"\n", c, turn, parent, strings.Join(tokens, ", "), 5+c+turn)
		}
	}
	if err := os.WriteFile(spec.Inputs[0], []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := batch.Run(t.Context(), spec, process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	prompts, hits, all := map[string]int{}, 0, 0
	for i := range conversations * turns {
		var row struct {
			ID     string `json:"id"`
			Prompt int    `json:"prompt_tokens"`
			Drawn  int    `json:"completion_tokens"`
		}
		part, err := os.ReadFile(filepath.Join(spec.Output, fmt.Sprintf("part-%05d.jsonl", i)))
		if err == nil {
			err = json.NewDecoder(bytes.NewReader(part)).Decode(&row)
		}
		if err != nil {
			t.Fatal(err)
		}
		var c, turn int
		if _, err := fmt.Sscanf(row.ID, "%d-%d", &c, &turn); err != nil {
			t.Fatal(err)
		}
		prompts[row.ID] = row.Prompt
		if all += row.Prompt; turn == 0 {
			continue
		}
		held := prompts[fmt.Sprintf("%d-%d", c, turn-1)]
		if report.Plan.NameDrawn {
			held += 5 + c + turn - 1 - 1
		}
		hits += held / spec.Engine.PageSize * spec.Engine.PageSize
	}
	if s := report.Engine; s.HitTokens != hits || s.PrefillTokens != all-hits {
		t.Errorf("%d prompt tokens were run and %d taken over, want %d and %d", s.PrefillTokens, s.HitTokens, all-hits,
			hits)
	}
	t.Logf("%d of %d prompt tokens were run", report.Engine.PrefillTokens, all)
}
