package promptset

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
)

// fill is a template: it wants the columns that it names in brackets, and fails where one is null.
type fill string

func (f fill) Uses() (names []string) {
	for _, piece := range strings.Split(string(f), "[")[1:] {
		name, _, _ := strings.Cut(piece, "]")
		names = append(names, name)
	}
	return names
}

func (f fill) Wants() []string { return f.Uses() }

func (f fill) Render(columns map[string]json.RawMessage) (string, error) {
	text := string(f)
	for _, name := range f.Uses() {
		if jsonvalue.IsNull(columns[name]) {
			return "", fmt.Errorf("%s is null", name)
		}
		text = strings.ReplaceAll(text, "["+name+"]", string(columns[name]))
	}
	return text, nil
}

func openMapped(t *testing.T, m Mapping, paths ...string) *Reader {
	t.Helper()
	r, err := OpenMapped(context.Background(), LocalFiles, paths, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type mappedRow struct {
	ID       string   `parquet:"id"`
	Prompt   *string  `parquet:"prompt,optional"`
	Question *string  `parquet:"question,optional"`
	Choices  []string `parquet:"choices,list"`
	Tools    *string  `parquet:"tools,optional"`
}

// mappedFiles are the same rows in each format.
func mappedFiles(t *testing.T) map[string]string {
	text := func(s string) *string { return &s }
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(path, []mappedRow{{"a", text("own"), text("Why?"), []string{"x"}, nil},
		{"b", nil, nil, nil, nil}, {"c", nil, text("é"), []string{"y", "z"}, nil}}); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"parquet": path,
		"jsonl": write(t, "x.jsonl", `{"id":"a","prompt":"own","question":"Why?","choices":["x"],"tools":null}
{"id":"b","prompt":null,"question":null}
{"id":"c","prompt":null,"question":"é","choices":["y","z"]}
`),
		"csv": write(t, "x.csv", "id,prompt,question,choices,tools\na,own,Why?,\"[\"\"x\"\"]\",\nb,,,,\n"+
			"c,,é,\"[\"\"y\"\",\"\"z\"\"]\",\n"),
	}
}

func TestPromptColumn(t *testing.T) {
	for format, path := range mappedFiles(t) {
		r := openMapped(t, Mapping{PromptColumn: "question"}, path)
		got := rows(t, r)
		want(t, format, fmt.Sprint(got[0].Kind, got[0].Prompt, got[2].Prompt), "promptWhy?é")
		want(t, format+": null", strings.HasSuffix(fmt.Sprint(got[1].Err), "no prompt; give one of question"), true)
		_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
		want(t, format+": passed through", strings.Join(column(root, out, "prompt"), " "), `"own" null null`)
		_, err := OpenMapped(context.Background(), LocalFiles, []string{path}, Mapping{PromptColumn: "answer"})
		if err == nil || !strings.Contains(err.Error(), `no column "answer", which `+"`prompt-column`"+
			` names: it has id, prompt, question, choices, tools`) {
			t.Errorf("%s: %v", format, err)
		}
		want(t, format+": text", fmt.Sprint(r.FirstText(context.Background(), 3))[:2] != "<n", true)
	}
}

// Ids come from the named column. It is passed through, and so is a column id, under a different name.
func TestIDColumn(t *testing.T) {
	for format, path := range mappedFiles(t) {
		r := openMapped(t, Mapping{IDColumn: "question", PromptColumn: "id"}, path)
		got := rows(t, r)
		want(t, format, fmt.Sprint(got[0].ID, got[0].Prompt, got[1].ID, got[1].HasID(), got[2].ID), "Why?a1falseé")
		_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
		want(t, format+": passed", strings.Join(column(root, out, "question"), " "), `"Why?" null "é"`)
		want(t, format+": id", strings.Join(column(root, out, "id"), " "), `"Why?" "1" "é"`)
		want(t, format+": own", strings.Join(column(root, out, "input_id"), " "), `"a" "b" "c"`)
		line, _, _ := strings.Cut(text(t, filepath.Join(complete(t, r, WriterOptions{Format: FormatJSONL}, 1),
			"part-00000.jsonl")), "\n")
		want(t, format+": line", strings.Contains(line, `"input_id":"a"`) && strings.Contains(line, `"id":"Why?"`),
			true)
		r = openMapped(t, Mapping{IDColumn: "question", Template: fill("[id]")}, path)
		want(t, format+": in a template", rows(t, r)[0].Prompt, `"a"`)
		want(t, format+": same", fmt.Sprint(rows(t, openMapped(t, Mapping{IDColumn: "id", PromptColumn: "question"},
			path))[0].ID), "a")
		for name, expect := range map[string]string{"choices": "choices",
			"none": "no column \"none\", which `id-column` names: it has id, prompt"} {
			if name == "choices" && format == "csv" { // if it is text
				continue
			}
			r, err := OpenMapped(context.Background(), LocalFiles, []string{path},
				Mapping{IDColumn: name, PromptColumn: "id"})
			if err == nil {
				err = rows(t, r)[0].Err
			}
			if err == nil || !strings.Contains(err.Error(), expect) {
				t.Errorf("%s: %v", format, err)
			}
		}
	}
	_, err := OpenMapped(context.Background(), LocalFiles, []string{write(t, "b.jsonl",
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}}`)},
		Mapping{IDColumn: "custom_id"})
	want(t, "of a batch file", strings.HasSuffix(fmt.Sprint(err), "`template` and `id-column`"), true)
}

func TestTemplate(t *testing.T) {
	for format, path := range mappedFiles(t) {
		r := openMapped(t, Mapping{Template: fill("Q: [question] [prompt]")}, path)
		got := rows(t, r)
		want(t, format, got[0].Prompt, `Q: "Why?" "own"`)
		want(t, format+": null", strings.HasSuffix(fmt.Sprint(got[1].Err), "`template`: question is null"), true)
		want(t, format+": null", strings.HasSuffix(fmt.Sprint(got[2].Err), "`template`: prompt is null"), true)
		_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
		want(t, format+": made", strings.Join(column(root, out, "prompt"), " "),
			`"Q: \"Why?\" \"own\"" null null`)
		want(t, format+": own", strings.Join(column(root, out, "input_prompt"), " "), `"own" null null`)
		line, _, _ := strings.Cut(text(t, filepath.Join(complete(t, r, WriterOptions{Format: FormatJSONL}, 1),
			"part-00000.jsonl")), "\n")
		want(t, format+": line", strings.Contains(line, `"prompt":"Q: \"Why?\" \"own\"","id":"a"`), true)
		_, err := OpenMapped(context.Background(), LocalFiles, []string{path}, Mapping{Template: fill("[answer]")})
		if err == nil || !strings.Contains(err.Error(), `no column "answer", which `+"`template`"+
			` uses: there are id, prompt, question, choices, tools`) {
			t.Errorf("%s: %v", format, err)
		}
	}
	// A column that one of several files has will do.
	files := []string{write(t, "a.jsonl", `{"x":1}`), write(t, "b.jsonl", `{"y":1}`)}
	got := rows(t, openMapped(t, Mapping{Template: fill("[x]")}, files...))
	want(t, "rows", got[0].Prompt+fmt.Sprint(got[1].Err != nil), "1true")
}

func TestBeforePrompts(t *testing.T) {
	path := write(t, "x.jsonl", `{"prompt":"one"}
{"messages":[{"role":"user","content":"two"},{"role":"user","content":"more"}]}
{"messages":[{"role":"system","content":"own"},{"role":"user","content":[{"type":"text","text":"three"}]}]}
{"prompt_token_ids":[1]}
{"prompt":"child","parent":"0"}
{"messages":[{"role":"assistant","content":"x"}]}
{"prompt":"tools","tools":[{"type":"function"}]}
`)
	for i, expect := range []string{
		"messages [{system S } {user P:one }]",
		"messages [{system S } {user P:two } {user more }]",
		`messages [{system own } {user P:three {"role":"user","content":[{"type":"text","text":"P:"},` +
			`{"type":"text","text":"three"}]}}]`,
		"prompt_token_ids are used as they are, and the job has `system` or `prefix-file`; leave that out, or give " +
			"the row a prompt",
		"prompt child",
		"messages have no user message that the text of `prefix-file` could precede",
		"messages [{system S } {user P:tools }]",
	} {
		row := rows(t, openMapped(t, Mapping{System: "S", Prefix: "P:"}, path))[i]
		got := fmt.Sprint(row.Kind, " ", row.Messages)
		if row.Kind == KindText {
			got = "prompt " + row.Prompt
		}
		if row.Err != nil {
			_, got, _ = strings.Cut(row.Err.Error(), fmt.Sprintf("line %d: ", i+1))
		}
		want(t, fmt.Sprint("row ", i), got, expect)
		if i == 6 {
			want(t, "tools", row.Overrides.Text("tools"), `[{"type":"function"}]`)
		}
	}
	plain := rows(t, openMapped(t, Mapping{Prefix: "P:"}, path))[0]
	want(t, "prefix of a prompt", plain.Kind.String()+plain.Prompt, "promptP:one")
	files := mappedFiles(t)
	row := rows(t, openMapped(t, Mapping{System: "S", Template: fill("[question]")}, files["parquet"]))[0]
	want(t, "system and template", fmt.Sprint(row.Messages), `[{system S } {user "Why?" }]`)
	batch := write(t, "b.jsonl",
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"x"}}`)
	_, err := OpenMapped(context.Background(), LocalFiles, []string{batch}, Mapping{PromptColumn: "x"})
	if err == nil || !strings.Contains(err.Error(), "it is a file of OpenAI's batch API") {
		t.Errorf("batch file: %v", err)
	}
}

// TestFloatsInTemplates: templates see what Python's float() makes of a float, for any value and width.
func TestFloatsInTemplates(t *testing.T) {
	type row struct {
		Prompt string    `parquet:"prompt"`
		Double float64   `parquet:"double"`
		Single float32   `parquet:"single"`
		List   []float64 `parquet:"list,list"`
		Large  uint64    `parquet:"large"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	nan := math.NaN()
	if err := parquet.WriteFile(path, []row{{"a", 100, 0.1, []float64{1, 2.5}, 1<<64 - 1},
		{"b", math.Copysign(0, -1), 3, []float64{1e15, nan}, 5}, {"c", 1e16, 1e20, nil, 0}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"100.0 0.10000000149011612 [1.0,2.5] 18446744073709551615", "-0.0 3.0 [1e+15,null] 5",
		"1e+16 1.0000000200408773e+20 [] 0"}
	for i, row := range rows(t, openMapped(t, Mapping{Template: fill("[double] [single] [list] [large]")}, path)) {
		if row.Err != nil || row.Prompt != want[i] {
			t.Errorf("row %d: %q, %v, want %q", i, row.Prompt, row.Err, want[i])
		}
	}
}

// TestDecimals: parameters and ids may be decimal numbers, as programs for tables write them, and ids may be UUIDs.
// Templates see integers, and numbers that keep their digits.
func TestDecimals(t *testing.T) {
	type row struct {
		ID          [16]byte `parquet:"id,uuid"`
		Price       int64    `parquet:"price,decimal(2:10)"`
		Count       int64    `parquet:"count,decimal(0:18)"`
		Temperature int32    `parquet:"temperature,decimal(1:2)"`
		N           int32    `parquet:"n,decimal(1:2)"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	one := row{ID: [16]byte{1, 15: 255}, Price: -150, Count: 7, Temperature: 7, N: 20}
	if err := parquet.WriteFile(path, []row{one}); err != nil {
		t.Fatal(err)
	}
	got := rows(t, openMapped(t, Mapping{Template: fill("[price] [count]")}, path))[0]
	set := got.Overrides.Over(parameter.Defaults())
	want(t, "row", fmt.Sprint(got.ID, " ", got.Prompt, " ", set.Temperature, set.N, got.Err),
		"01000000-0000-0000-0000-0000000000ff -1.50E+000 7 0.7 2 <nil>")
	want(t, "id", rows(t, openMapped(t, Mapping{IDColumn: "count", Template: fill("[price]")}, path))[0].ID, "7")
}
