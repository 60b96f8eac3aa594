package promptset

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/vfs"
)

func TestJSONTypes(t *testing.T) {
	for schema, expect := range map[string]string{
		`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"},"n":{"type":"number"},` +
			`"b":{"type":"boolean"}}}`: "struct{z text, a int64, n double, b boolean}",
		`{"properties":{"l":{"items":{"type":"integer"}},"e":{"enum":["x","y",null]},"c":{"const":1},` +
			`"m":{"enum":["x",1]}}}`: "struct{l list of int64, e text, c int64, m text}",
		`{"type":"object","properties":{"o":{"anyOf":[{"type":"string"},{"type":"null"}]},"t":{"type":["integer","null",` +
			`"number"]},"u":{"type":["string","integer"]},"v":{"oneOf":[{"type":"string"},{"type":"integer"}]},` +
			`"w":{"allOf":[{"type":"string"}]},"x":{},"y":true}}`: "struct{o text, t double, u text, v text, w text, x text, y text}",
		`{"$ref":"#/$defs/A~1b","$defs":{"A/b":{"type":"object","properties":{"s":{"$ref":"#/$defs/S"},` +
			`"me":{"$ref":"#/$defs/A~1b"},"open":{"type":"object"}}},"S":{"type":"string"}}}`: "struct{s text, me text, open text}",
		`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}`: "list of struct{a text}",
		`{"type":"array","items":true}`:                    "list of text",
		`{"type":"object"}`:                                "no type",
		`{"type":"object","properties":{}}`:                "no type",
		`true`:                                             "no type",
		`{"type":"string"}`:                                "no type",
		`{"$ref":"#"}`:                                     "no type",
		`{"$ref":"https://example.org/x"}`:                 "no type",
		`{"anyOf":[{"type":"object"},{"type":"array"}]}`:   "no type",
		`{"anyOf":[[],{"type":"null"},true]}`:              "no type",
		`{"properties":[1],"items":3,"$ref":4,"enum":{}}`:  "no type",
		`{"type":"array","prefixItems":[{}],"items":true}`: "no type",
		`{"properties":{"a":` + strings.Repeat(`{"items":`, 100) + `{}` + strings.Repeat("}", 101) +
			`}`: "struct{a list of",
	} {
		typ, err := completion.NewJSONType(schema)
		got := fmt.Sprint(err)
		if err == nil {
			got = typ.Node.Describe()
		}
		if !strings.Contains(got, expect) {
			t.Errorf("%.200s: %s, want %s", schema, got, expect)
		}
	}
}

// jsonPart writes texts as the column json, and returns it as JSON, read from a part of each format.
func jsonPart(t testing.TB, schema string, texts ...string) (parquet, lines []string) {
	t.Helper()
	typ, err := completion.NewJSONType(schema)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, write(t, "x.jsonl", `{"prompt":"a","json":1,"later":[1]}`))
	var results []Result
	for i, text := range texts {
		results = append(results, Result{Generation: i, Text: text, TokenIDs: []int32{1}, FinishReason: "stop",
			CompletionTokens: 1})
	}
	for _, format := range []string{FormatParquet, FormatJSONL} {
		dir := filepath.Join(t.(interface{ TempDir() string }).TempDir(), format)
		place, err := folder.NewLocal(vfs.OS, dir)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(place, WriterOptions{Format: format, Schema: r.Schema(),
			Shape: completion.Shape{Requested: []string{completion.JSONColumn}, JSON: typ},
			Parts: folder.Parts{Rows: 1, PartRows: 1}, Write: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(rows(t, r)[0], results); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, folder.PartName(0, format))
		out, err := OpenOutput(folder.OpenLocal(vfs.OS, dir))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if c, err := out.Read(t.Context(), out.Parts[0], func(c *Completion) error {
			want(t, "read back", c.Result.Text, texts[n])
			n++
			return nil
		}); err != nil || c.Damage != "" || n != len(texts) {
			t.Fatal(err, c.Damage, n)
		}
		if format == FormatParquet {
			_, root, out := parsed(t, path)
			parquet = column(root, out, completion.JSONColumn)
			want(t, "type", root.Field(completion.JSONColumn).Describe(), typ.Node.Describe())
			continue
		}
		for _, line := range strings.Split(strings.TrimSuffix(text(t, path), "\n"), "\n") {
			all, err := jsonvalue.ParseRow([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(jsonvalue.Find(all, completion.JSONColumn)))
		}
	}
	return parquet, lines
}

func TestJSONColumn(t *testing.T) {
	const schema = `{"properties":{"label":{"enum":["a","b"]},"n":{"type":"integer"},"x":{"type":"number"},` +
		`"tags":{"type":"array","items":{"type":"string"}},"any":{}}}`
	texts := []string{
		` {"n": 1.0, "label": "a", "x": 2.50, "tags": ["é", "y"], "any": {"k": [1, 2]}} `,
		`{"label":"b","more":true}`,
		`{"label":null,"tags":[],"any":null}`,
		`{"label":"a","n":1`,        // cut
		`{"label":"a","n":"1"}`,     // of another type
		`{"n":1.5}`,                 // no integer
		`{"n":9223372036854775808}`, // out of range
		`{"label":"\ud800"}`, `[1]`, `"a"`, ``, `null`, `{"label":"a"} more`, `{"label":"a","label":"b"}`,
	}
	table, lines := jsonPart(t, schema, texts...)
	for i, expect := range []struct{ parquet, jsonl string }{
		{`{"label":"a","n":1,"x":2.5,"tags":["é","y"],"any":{"k":[1,2]}}`,
			`{"label":"a","n":1,"x":2.50,"tags":["é","y"],"any":{"k":[1,2]}}`},
		{`{"label":"b","n":null,"x":null,"tags":null,"any":null}`, `{"label":"b"}`},
		{`{"label":null,"n":null,"x":null,"tags":[],"any":null}`, `{"label":null,"tags":[],"any":null}`},
	} {
		want(t, texts[i], table[i], expect.parquet)
		want(t, texts[i], lines[i], expect.jsonl)
	}
	for i := 3; i < len(texts); i++ {
		want(t, texts[i], table[i]+lines[i], "nullnull")
	}
	table, _ = jsonPart(t, `{"type":"array","items":{"properties":{"a":{"type":"integer"}}}}`, `[{"a":1},null,{}]`,
		`[]`, `{}`)
	want(t, "a list", strings.Join(table, " "), `[{"a":1},null,{"a":null}] [] null`)
}

// Values of any fixed schema come back from a part.
func TestJSONColumnProperty(t *testing.T) {
	var drawn func(t *rapid.T, depth int) (schema string, value string)
	drawn = func(rt *rapid.T, depth int) (string, string) {
		kinds := []string{"string", "integer", "boolean", "any"}
		if depth < 3 {
			kinds = append(kinds, "array", "object", "object")
		}
		switch kind := rapid.SampledFrom(kinds).Draw(rt, "kind"); kind {
		case "string":
			b, _ := json.Marshal(rapid.StringMatching(`[a-zé"\\ ]{0,4}`).Draw(rt, "text"))
			return `{"type":"string"}`, string(b)
		case "integer":
			return `{"type":["integer","null"]}`, fmt.Sprint(rapid.Int64().Draw(rt, "number"))
		case "boolean":
			return `{"type":"boolean"}`, fmt.Sprint(rapid.Bool().Draw(rt, "truth"))
		case "any":
			return `{}`, rapid.SampledFrom([]string{`1`, `{"a":[]}`, `"x"`, `[null]`}).Draw(rt, "value")
		case "array":
			items, one := drawn(rt, depth+1)
			n := rapid.IntRange(0, 3).Draw(rt, "length")
			return `{"type":"array","items":` + items + `}`, "[" + strings.Repeat(","+one, n)[min(n, 1):] + "]"
		}
		var properties, members []string
		for i := range rapid.IntRange(1, 3).Draw(rt, "members") {
			schema, value := drawn(rt, depth+1)
			properties = append(properties, fmt.Sprintf(`"m%d":%s`, i, schema))
			members = append(members, fmt.Sprintf(`"m%d":%s`, i, value))
		}
		return `{"properties":{` + strings.Join(properties, ",") + `}}`, `{` + strings.Join(members, ",") + `}`
	}
	rapid.Check(t, func(rt *rapid.T) {
		schema, value := drawn(rt, 0)
		if _, err := completion.NewJSONType(schema); err != nil {
			rt.Skip()
		}
		table, lines := jsonPart(t, schema, value, "no", value)
		for _, i := range []int{0, 2} {
			if table[i] != value || lines[i] != value {
				rt.Fatalf("%s: %s is %s and %s", schema, value, table[i], lines[i])
			}
		}
	})
}
