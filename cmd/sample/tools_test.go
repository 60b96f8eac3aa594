package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// talked is a row of an output of conversations, or of turns of one.
type talked struct {
	ID         string
	Generation int
	Text       string
	Prompt     []int32           `json:"prompt_token_ids"`
	Tokens     []int32           `json:"token_ids"`
	Logprobs   []json.RawMessage // as they are written
	Reason     string            `json:"finish_reason"`
	Error      *string
	Messages   json.RawMessage
	Turns      int
	Mask       []int `json:"completion_mask"`
}

// characters makes a model whose tokens are characters, from the weights of a small one.
func characters(t *testing.T, dir string) {
	t.Helper()
	var tokenizer strings.Builder
	tokenizer.WriteString(`{"model": {"type": "BPE", "merges": [], "vocab": {`)
	for i := range 95 {
		name, _ := json.Marshal(string(rune(32 + i)))
		fmt.Fprintf(&tokenizer, "%s: %d, ", name, i)
	}
	for i := 95; i < 254; i++ {
		fmt.Fprintf(&tokenizer, `"%c%c": %d, `, 97+i%26, 97+i/26, i)
	}
	tokenizer.WriteString(`"\n": 254, "<end>": 255}}, "added_tokens": [{"id": 255, "content": "<end>", "special": true, ` +
		`"single_word": false, "lstrip": false, "rstrip": false, "normalized": false}], "decoder": {"type": "Fuse"}}`)
	from := filepath.Join("..", "..", "testdata", "models", "smollm2-like")
	for _, name := range []string{"config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		b = bytes.Replace(b, []byte(`"max_position_embeddings": 160`), []byte(`"max_position_embeddings": 1500`), 1)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	writeAll(t, dir, map[string]string{"tokenizer.json": tokenizer.String(),
		"generation_config.json": `{"eos_token_id": 255}`})
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// talk runs a job with a real engine and returns the rows of its output.
func talk(t *testing.T, dir, input, output string, extra ...string) (rows []talked, text string) {
	t.Helper()
	path, err := exec.LookPath("real-sample")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"run", "-m", "model", "-i", input, "-o", output, "--format", "jsonl",
		"--chat-template", "template.jinja", "--tools", "tools.json", "--columns", "prompt_token_ids",
		"--temperature", "1",
		"--regex", `<tool_call>\n\{"name": "f", "arguments": \{"x": 1\}\}\n</tool_call>|<tool_call>\n\{"name": "g", ` +
			`"arguments": \{\}\}\n</tool_call><tool_call>\n\{"name": "f", "arguments": \{\}\}\n</tool_call>|done`,
		"--max-tokens", "200", "--max-model-len", "1500", "--progress", "none"}, extra...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, output, "part-00000.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var row talked
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Error != nil {
			t.Fatalf("row %s: %s", row.ID, *row.Error)
		}
		rows = append(rows, row)
	}
	return rows, string(b)
}

// Conversations with tools have the tokens and logprobs, bit for bit, of the same turns as rows with parents, and they
// do not depend on what else runs.
func TestTurnsOfToolsAreRowsWithParents(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "model"), 0o777); err != nil {
		t.Fatal(err)
	}
	characters(t, filepath.Join(dir, "model"))
	var lines []string
	for i := range 8 {
		lines = append(lines, fmt.Sprintf(
			`{"id": "r%d", "messages": [{"role": "user", "content": "question %[1]d"}], "n": 2, "seed": %[1]d}`, i))
	}
	reversed := slices.Clone(lines)
	slices.Reverse(reversed)
	writeAll(t, dir, map[string]string{
		"template.jinja": `{% if tools %}T{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}` +
			`{% if m.tool_calls %}{{ m.tool_calls }}{% endif %}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}` +
			"{# <tool_call> arguments #}",
		"tools.json": `[{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]`,
		"tool.sh": `while IFS= read -r line; do
	case "$line" in
	*'"x":1'*) echo one ;;
	*) echo '"two\nlines"' ;;
	esac
done`,
		"in.jsonl": strings.Join(lines, "\n"), "reversed.jsonl": strings.Join(reversed, "\n")})
	flags := []string{"--tool-command", "exec sh tool.sh", "--max-turns", "4"}
	rows, text := talk(t, dir, "in.jsonl", "out", append(flags, "--max-seqs", "4")...)

	_, again := talk(t, dir, "reversed.jsonl", "again", append(flags, "--max-seqs", "3", "--prefix-cache", "off")...)
	sorted := func(text string) []string {
		return slices.Sorted(strings.Lines(text))
	}
	if !slices.Equal(sorted(text), sorted(again)) {
		t.Errorf("rows depend on their order and on slots:\n%s\n%s", text, again)
	}

	most := 0
	for g := range 2 {
		var hand strings.Builder
		var whole []talked
		for _, row := range rows {
			if row.Generation != g {
				continue
			}
			whole = append(whole, row)
			most = max(most, row.Turns)
			var list string
			var messages []map[string]any
			err := errors.Join(json.Unmarshal(row.Messages, &list), json.Unmarshal([]byte(list), &messages))
			if err != nil {
				t.Fatal(err)
			}
			writeTurns(&hand, &row, messages)
		}
		writeAll(t, dir, map[string]string{"hand.jsonl": hand.String()})
		turns, _ := talk(t, dir, "hand.jsonl", fmt.Sprint("hand", g), "--max-seqs", "4")
		for _, row := range whole {
			turns = sameTurns(t, &row, turns)
		}
	}
	if most < 3 {
		t.Errorf("no conversation has more than %d turns, which shows little: %s", most, text)
	}
}

// writeTurns writes the turns of a conversation as rows, of which each continues the one before.
func writeTurns(to *strings.Builder, row *talked, messages []map[string]any) {
	seed := strings.TrimPrefix(row.ID, "r")
	for turn := range row.Turns {
		one := map[string]any{"id": row.ID, "generation": row.Generation, "seed": json.Number(seed)}
		if turn > 0 {
			one["id"], one["parent"] = fmt.Sprintf("%s/%d", row.ID, turn), row.ID
			if turn > 1 {
				one["parent"] = fmt.Sprintf("%s/%d", row.ID, turn-1)
			}
		}
		n := 1 // the first message of a later turn is the answer that it follows
		for n < len(messages) && messages[n]["role"] != "assistant" {
			n++
		}
		one["messages"] = messages[:n]
		messages = messages[n:]
		b, _ := json.Marshal(one)
		fmt.Fprintf(to, "%s\n", b)
	}
}

// sameTurns compares a conversation with rows for its turns, and returns the rows after these.
func sameTurns(t *testing.T, row *talked, turns []talked) []talked {
	t.Helper()
	all := slices.Clone(row.Prompt)
	var mask []int
	generated := row.Tokens
	logprobs := row.Logprobs
	for i, turn := range turns[:row.Turns] {
		inserted := len(turn.Prompt) - len(all)
		if i == 0 && !slices.Equal(turn.Prompt, row.Prompt) {
			t.Fatalf("row %s has another first prompt", row.ID)
		}
		for range inserted {
			mask = append(mask, 0)
		}
		for range turn.Tokens {
			mask = append(mask, 1)
		}
		end := inserted + len(turn.Tokens)
		if len(generated) < end || !slices.Equal(generated[:end], slices.Concat(turn.Prompt[len(all):], turn.Tokens)) {
			t.Fatalf("row %s: turn %d has other tokens than the row %s", row.ID, i, turn.ID)
		}
		if fmt.Sprint(logprobs[inserted:end]) != fmt.Sprint(turn.Logprobs) {
			t.Fatalf("row %s: turn %d has other logprobs than the row %s", row.ID, i, turn.ID)
		}
		for _, p := range logprobs[:inserted] {
			if string(p) != "0" {
				t.Fatalf("row %s: a token of a tool has the logprob %s", row.ID, p)
			}
		}
		generated, logprobs, all = generated[end:], logprobs[end:], slices.Concat(turn.Prompt, turn.Tokens)
	}
	if len(generated) > 0 || !slices.Equal(mask, row.Mask) {
		t.Fatalf("row %s has %d more tokens, or another mask than its turns", row.ID, len(generated))
	}
	return turns[row.Turns:]
}
