package parameter

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write docs/parameters.md")

const introduction = `# Parameters of a row

This page is made from the table in package parameter, by "go test ./data/parameter -run TestPage -write".

A row of the input may give parameters of its own, which come before the flags. The table has the names that the APIs of
OpenAI (chat and completions), vLLM, llama.cpp's server and transformers (GenerationConfig) use. The same names work as
keys of JSONL and as columns of other files, with dashes or underscores. For each row and name:

- A value that is null is not given: the flag holds, or its default.
- A value that Quire applies sets one of its own parameters. The completion has the same bytes under either name.
- Two names of one parameter in one row must have equal values, else the row is an error that names both.
- A value that asks for what Quire does anyway has no effect.
- Any other value makes the row an error that names the column, its value and what to do.

All these columns are also passed through to the output, as every column of the input is.

The defaults below apply to a model whose files set no others. The sampling settings of its generation_config.json
(temperature, top_k, top_p, min_p, typical_p, repetition_penalty), or the keys of general.sampling of its GGUF file as
llama.cpp has them (temp, top_k, top_p, min_p, xtc_probability, xtc_threshold, penalty_repeat), take their place,
unless "--generation-config none" is given. The first lines of a run, the plan and the report say which. A warning names
other settings of these files: the number of tokens that a GGUF file's penalty looks at, mirostat, beams.

A column with a different name belongs to the user. If its name is near to one of these ("temprature"), the job prints a
warning once. The names of OpenAI's Responses API that are common names of data ("input", "instructions", "reasoning",
"text") are not in the table: Quire does not read such requests.
`

const ofDRYText = `
## DRY

The parameters ` + "`dry_*`" + ` work as in llama.cpp's sampler dry (` + "`src/llama-sampler.cpp`" + `). Suppose that the last k tokens of
prompt and completion also occur earlier among the last ` + "`dry_penalty_last_n`" + `. The token that follows them there would
repeat k + 1 tokens. If k is at least ` + "`dry_allowed_length`" + `, its logit is reduced by

    dry_multiplier * dry_base ^ (k - dry_allowed_length)

for the largest k. No repetition goes beyond a breaker. A breaker is a token that contains a text of
` + "`dry_sequence_breakers`" + `, or a token that ends with the beginning of one, followed by the tokens of the rest. A token
that is a breaker by itself has no penalty. DRY comes after the other penalties.

A row is an error if this cannot be exact: if its breakers have more than 15 such rests; if a breaker has more than 40
bytes, or a special token after its beginning; or if ` + "`dry_penalty_last_n`" + ` is -1, which llama.cpp once supported, and a
sequence may have more than 8192 tokens (` + "`--max-model-len`" + `).
`

const messages = `
## Members of a message

A chat template gets each message with all its members, except those that are null, an empty list or an empty object.
Content is text, a list of text parts (` + "`" + `{"type": "text", "text": ...}` + "`" + `), or null in a message of neither system nor
user. A member below that has a value makes the row an error that names it. A key that is there twice, in a row or in a
message, makes the row an error. See [chat.md](chat.md).
`

func (e Engine) String() string {
	var names []string
	for i, name := range []string{"OpenAI", "vLLM", "llama.cpp", "transformers"} {
		if e&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// page writes the table as Markdown.
func page() string {
	var b strings.Builder
	b.WriteString(introduction)
	table := func(of iter.Seq[*Parameter], head string, row func(*Parameter) string) {
		columns := strings.Count(head, "|") + 1
		fmt.Fprintf(&b, "\n| name | %s | APIs | notes |\n|", head)
		fmt.Fprintln(&b, strings.Repeat(" --- |", columns+3))
		for p := range of {
			if cell := row(p); cell != "" {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, cell, p.From, note(p))
			}
		}
	}
	section := func(title, head string, row func(*Parameter) string) {
		fmt.Fprintf(&b, "\n## %s\n", title)
		table(All(), head, row)
	}
	section("Quire's own", "type | default | range | flag | on the device", func(p *Parameter) string {
		if !p.Own() {
			return ""
		}
		flag, device := "", ""
		if p.Flag != "" {
			flag = "`--" + p.Flag + "`"
		}
		if p.Device != "" {
			device = "`" + p.Device + "`"
		}
		return strings.Join([]string{p.Type().String(), p.Default(), p.Range(), flag, device}, " | ")
	})
	b.WriteString(ofDRYText)
	section("Other names of these", "sets", func(p *Parameter) string {
		if p.Own() || p.Sets == "" {
			return ""
		}
		return "`" + p.Sets + "`"
	})
	const refused = "Not supported: only these values without effect are accepted"
	section(refused, "no effect, like null", func(p *Parameter) string {
		if p.Sets != "" || p.passes {
			return ""
		}
		return withoutEffect(p)
	})
	b.WriteString("\nEmpty is `\"\"`, `[]`, `{}`, an object whose members are all null, or a list of such objects.\n")
	section("Passed through with any value", "why", func(p *Parameter) string {
		if !p.passes {
			return ""
		}
		return p.Note
	})
	b.WriteString(messages)
	table(Members(), "no effect, like null", withoutEffect)
	return strings.ReplaceAll(b.String(), "|  |", "| |")
}

// withoutEffect lists the values of a refused name that pass.
func withoutEffect(p *Parameter) string {
	var values []string
	for _, v := range p.neutral {
		values = append(values, "`"+v+"`")
	}
	if !p.strict {
		values = append(values, "empty")
	}
	return strings.Join(append(values, slices.Repeat([]string{"nothing"}, 1-min(1, len(values)))...), ", ")
}

func note(p *Parameter) string {
	var notes []string
	if p.when.rows != "" {
		notes = append(notes, fmt.Sprintf("in rows with `%s`", p.when.rows))
	}
	if p.dataList {
		notes = append(notes, "a list is data, as in an earlier output")
	}
	if p.Note != "" && !p.passes {
		notes = append(notes, p.Note)
	}
	return strings.Join(notes, "; ")
}

// The page of the documentation is the table.
func TestPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "parameters.md")
	if *write {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page() {
		t.Errorf("%s is not the table; write it again: go test ./data/parameter -run TestPage -write", path)
	}
}
