package promptset

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/schema"
)

// what is the error of a row without its place, or "".
func what(r *Row) string {
	if r.Err == nil {
		return ""
	}
	return r.Err.(*RowError).What
}

// Messages reach the template with all that they have; what asks for something that Quire does not do makes the row an
// error.
func TestMembersOfMessages(t *testing.T) {
	const tools = `"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]`
	for _, c := range []struct{ members, want, object string }{
		{`"role":"user","content":"a"`, "", ""},
		{`"role":"user","content":"a","name":"bob"`, "", `{"role":"user","content":"a","name":"bob"}`},
		{`"name":"bob","role":"user","content":"a"`, "", `{"name":"bob","role":"user","content":"a"}`},
		{`"role":"assistant","content":null,` + tools, "", `{"role":"assistant","content":null,` + tools + `}`},
		{`"role":"assistant",` + tools, "", `{"role":"assistant",` + tools + `}`},
		{`"role":"assistant","tool_calls":"[{\"a\": 1}]"`, "", `{"role":"assistant","tool_calls":[{"a":1}]}`},
		{`"role":"tool","content":"","tool_call_id":"x"`, "", `{"role":"tool","content":"","tool_call_id":"x"}`},
		{`"role":"user","content":"a","name":null,"tool_calls":[],"function_call":{ },"prefix":false,"images":null`, "",
			`{"role":"user","content":"a","prefix":false}`},
		{`"role":"user","content":[{"type":"text","text":"a"},{"text":"b","type":"text","x":1}]`, "",
			`{"role":"user","content":[{"type":"text","text":"a"},{"text":"b","type":"text","x":1}]}`},
		{`"role":"user","content":[]`, "", `{"role":"user","content":[]}`},

		{`"role":"user","content":"a","images":["a.png"]`,
			`messages[1].images is not supported as ["a.png"]; leave it out`, ""},
		{`"role":"assistant","content":"a","prefix":true`,
			`messages[1].prefix is not supported as true; leave it out or give continue_final_message`, ""},
		{`"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]`,
			`messages[1].content[1] has the type "image_url"; only text is supported`, ""},
		{`"role":"user","content":[{"type":"input_audio"}]`,
			`messages[1].content[0] has the type "input_audio"; only text is supported`, ""},
		{`"role":"user","content":[{"type":"text"}]`, `messages[1].content[0] has no text`, ""},
		{`"role":"user","content":["a"]`,
			`messages[1].content[0] is text "a"; it must be an object with the type text`, ""},
		{`"role":"user","content":{"type":"text"}`,
			`messages[1].content is an object; it must be text or a list of text parts`, ""},

		{`"role":"user","content":"a","content":"b"`, `messages[1]: the key "content" is there twice; keep one`, ""},
		{`"role":"user","content":"a","weight":1,"weight":2`, `messages[1]: the key "weight" is there twice; keep one`,
			""},

		{`"role":"user","name":"bob"`, `messages[1] has no content; give it text`, ""},
		{`"role":"system","content":null`, `messages[1] has no content; give it text`, ""},
		{`"content":"a"`, "", `{"content":"a"}`},
		{`"role":null,"title":"t","content":"a"`, "", `{"title":"t","content":"a"}`},
		{`"role":""`, `messages[1] has the unknown role ""`, ""},
		{``, `messages[1] has no role; use one of system,`, ""},
		{`"role":1,"content":"a"`, `messages[1].role is the number 1; it must be text`, ""},
	} {
		line := `{"messages":[{"role":"system","content":"s"},{` + c.members + `}]}`
		quoted, _ := json.Marshal(line[len(`{"messages":`) : len(line)-1])
		for _, line := range []string{line, `{"messages":` + string(quoted) + `}`} {
			row := rows(t, open(t, write(t, "x.jsonl", line)))[0]
			if got := what(row); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%s:\n got %s\nwant %s", line, got, c.want)
			}
			if c.want == "" && (len(row.Messages) != 2 || row.Messages[1].Object != c.object) {
				t.Errorf("%s: got %+v", line, row.Messages)
			}
		}
	}
	row := rows(t, open(t, write(t, "x.jsonl",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`)))[0]
	want(t, "for people", row.PromptText(), "user: a\nb")
}

// All members of the table are rejected, whatever their values are.
func TestMembersOfTheTable(t *testing.T) {
	for p := range parameter.Members() {
		line := fmt.Sprintf(`{"messages":[{"role":"user","content":"a",%q:{"a":[1]}}]}`, p.Name)
		want := fmt.Sprintf(`messages[0].%s is not supported as {"a":[1]}; leave it out`, p.Name)
		if got := what(rows(t, open(t, write(t, "x.jsonl", line)))[0]); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

type call struct {
	Type *string `parquet:"type,optional" json:"type"`
	Name *string `parquet:"name,optional" json:"name"`
}

type wideMessage struct {
	Role    string   `parquet:"role" json:"role"`
	Name    *string  `parquet:"name,optional" json:"name"`
	Calls   []call   `parquet:"tool_calls,list" json:"tool_calls"`
	Content *string  `parquet:"content,optional" json:"content"`
	Call    *call    `parquet:"function_call,optional" json:"function_call"`
	Prefix  *bool    `parquet:"prefix,optional" json:"prefix"`
	Weight  *float64 `parquet:"weight,optional" json:"weight"`
}

type wideRow struct {
	Messages []wideMessage `parquet:"messages,list" json:"messages"`
}

// withoutNulls is JSON without members that are null, and with the others in the order of their names: a Parquet file
// keeps neither.
func withoutNulls(text string) string {
	var prune func(v any) any
	prune = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, m := range v {
				if v[k] = prune(m); v[k] == nil {
					delete(v, k)
				}
			}
		case []any:
			for i := range v {
				v[i] = prune(v[i])
			}
		}
		return v
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	b, _ := json.Marshal(prune(v))
	return string(b)
}

// Members of messages mean the same in JSONL and Parquet.
func TestMembersInBothFormats(t *testing.T) {
	dir := t.TempDir()
	read := func(t *rapid.T, path string) *Row {
		r, err := Open(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		for row := range r.Rows(t.Context()) {
			return row
		}
		t.Fatal("no row")
		return nil
	}
	text := rapid.Ptr(rapid.SampledFrom([]string{"", "x", strings.Repeat("long ", 20)}), true)
	calls := rapid.Custom(func(t *rapid.T) call { return call{text.Draw(t, "type"), text.Draw(t, "function")} })
	messages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wideMessage {
		m := wideMessage{Role: rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role")}
		null := rapid.IntRange(0, 9).Draw(t, "null") == 0
		m.Content = rapid.Ptr(rapid.SampledFrom([]string{"", "a", "b"}), null).Draw(t, "content")
		if rapid.Bool().Draw(t, "wide") {
			m.Name, m.Call = text.Draw(t, "name"), rapid.Ptr(calls, true).Draw(t, "function_call")
			m.Calls = rapid.SliceOfN(calls, 0, 2).Draw(t, "tool_calls")
			m.Prefix = rapid.Ptr(rapid.Bool(), true).Draw(t, "prefix")
			m.Weight = rapid.Ptr(rapid.Float64Range(0, 1), true).Draw(t, "weight")
		}
		return m
	}), 1, 3)
	var refused, good int
	rapid.Check(t, func(t *rapid.T) {
		row := wideRow{messages.Draw(t, "messages")}
		asParquet, asJSONL := filepath.Join(dir, "x.parquet"), filepath.Join(dir, "x.jsonl")
		if err := parquet.WriteFile(asParquet, []wideRow{row}); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(asJSONL, b, 0o666); err != nil {
			t.Fatal(err)
		}
		p, j := read(t, asParquet), read(t, asJSONL)
		// Which of several faults is named first may differ.
		for _, messages := range [][]Message{p.Messages, j.Messages} {
			for i := range messages {
				messages[i].Object = withoutNulls(messages[i].Object)
			}
		}
		if (p.Err == nil) != (j.Err == nil) || !reflect.DeepEqual(p.Messages, j.Messages) ||
			len(row.Messages) == 1 && what(p) != what(j) {
			t.Fatalf("%s:\nparquet %v %q\njsonl   %v %q", b, p.Messages, what(p), j.Messages, what(j))
		}
		if p.Err != nil {
			refused++
		} else {
			good++
		}
	})
	if refused == 0 || good == 0 {
		t.Errorf("%d rows refused and %d good: the test tests nothing", refused, good)
	}
}

// The struct of lists that some tools make of messages has members as lists.
func TestMembersOfSplitMessages(t *testing.T) {
	type lists struct {
		Role    []string  `parquet:"role,list"`
		Content []string  `parquet:"content,list"`
		Name    []*string `parquet:"name,list"`
		ID      []int32   `parquet:"id,list"`
	}
	type row struct {
		Messages lists `parquet:"messages"`
	}
	bob, empty := "bob", ""
	role, content := []string{"user", "assistant"}, []string{"a", "b"}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(path, []row{
		{lists{role, content, []*string{nil, &bob}, []int32{1, 2}}},
		{lists{role, content, []*string{&empty, nil}, nil}},
		{lists{role, content[:1], nil, nil}},
	}); err != nil {
		t.Fatal(err)
	}
	got := rows(t, open(t, path))
	want(t, "wide", fmt.Sprint(got[0].Messages)+what(got[0]), `[{user a {"role":"user","content":"a","id":1}} `+
		`{assistant b {"role":"assistant","content":"b","name":"bob","id":2}}]`)
	want(t, "empty", fmt.Sprint(got[1].Messages)+what(got[1]),
		`[{user a {"role":"user","content":"a","name":""}} {assistant b }]`)
	want(t, "uneven", what(got[2]), "messages has 2 roles and 1 contents; give each message both")
}

// Messages, tools and variables of the template may be structs, or text with JSON.
func TestJSONInParquet(t *testing.T) {
	type part struct {
		Type string `parquet:"type"`
		Text string `parquet:"text"`
	}
	type message struct {
		Role    string `parquet:"role"`
		Content []part `parquet:"content,list"`
		Calls   string `parquet:"tool_calls"`
	}
	type function struct {
		Name string `parquet:"name"`
		Days *int64 `parquet:"days,optional"`
	}
	type structs struct {
		Messages  []message           `parquet:"messages,list"`
		Tools     []function          `parquet:"tools,list"`
		Variables function            `parquet:"chat_template_kwargs"`
		Documents []map[string]string `parquet:"documents,list"`
		Choice    string              `parquet:"tool_choice"`
		Add       bool                `parquet:"add_generation_prompt"`
	}
	type texts struct {
		Messages  string  `parquet:"messages"`
		Tools     []byte  `parquet:"tools,json"`
		Variables *string `parquet:"chat_template_kwargs,optional"`
		Documents string  `parquet:"documents"`
		Choice    string  `parquet:"tool_choice"`
		Add       bool    `parquet:"add_generation_prompt"`
	}
	days, variables := int64(3), `{"name":"n"}`
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "structs.parquet"), filepath.Join(dir, "texts.parquet"), write(t, "x.jsonl",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}],"tool_calls":[{"x":1}]}],`+
			`"tools":[{"name":"f"},{"name":"g","days":3}],"chat_template_kwargs":{"name":"n"},"documents":[{"k":"v"}],`+
			`"tool_choice":"none","add_generation_prompt":false}`)}
	if err := parquet.WriteFile(paths[0], []structs{{[]message{{"user", []part{{"text", "a"}}, `[{"x":1}]`}},
		[]function{{"f", nil}, {"g", &days}}, function{"n", nil}, []map[string]string{{"k": "v"}}, "none",
		false}}); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteFile(paths[1], []texts{{
		`[{"role":"user","content":[{"type":"text","text":"a"}],"tool_calls":[{"x":1}]}]`,
		[]byte(`[{"name": "f"}, {"name": "g", "days": 3}]`), &variables, `[{"k":"v"}]`, "none", false}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		row := rows(t, open(t, path))[0]
		set := row.Overrides.Over(parameter.Defaults())
		want(t, path, fmt.Sprint(row.Messages, set.Text, what(row)), `[{user a {"role":"user",`+
			`"content":[{"type":"text","text":"a"}],"tool_calls":[{"x":1}]}}] {[{"name":"f"},{"name":"g","days":3}] `+
			`[{"k":"v"}] {"name":"n"}  none true false false 0 true false -1}`)
	}
}

// Documents are a parameter of messages. With other prompts they are the user's own.
func TestDocumentsOfPrompts(t *testing.T) {
	type row struct {
		Prompt    string `parquet:"prompt"`
		Documents int64  `parquet:"documents"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(path, []row{{"a", 1}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, write(t, "x.jsonl", `{"prompt":"a","documents":1}`)} {
		want(t, path, what(rows(t, open(t, path))[0]), "")
	}
	want(t, "messages", what(rows(t, open(t, write(t, "y.jsonl",
		`{"messages":[{"role":"user","content":"a"}],"documents":1}`)))[0]),
		"documents is the number 1; it must be a JSON list")
}

// Values that are not JSON of the parameter's type make the row an error; empty ones are not given.
func TestJSONParameters(t *testing.T) {
	for value, problem := range map[string]string{
		`{}`: "", `"{}"`: "", `""`: "", `null`: "", `{"a":1}`: "", `"{\"a\":1}"`: "",
		`[]`:  `chat_template_kwargs is a list []; it must be a JSON object`,
		`1`:   `chat_template_kwargs is the number 1; it must be a JSON object`,
		`"x"`: `chat_template_kwargs is text "x"; it must be a JSON object`,
	} {
		row := rows(t, open(t, write(t, "x.jsonl", `{"prompt":"a","chat_template_kwargs":`+value+`}`)))[0]
		want(t, value, what(row), problem)
		given := row.Overrides.Values().ChatTemplateKwargs
		if has := strings.Contains(value, "a"); has != (given == `{"a":1}`) || !has && given != "" {
			t.Errorf("%s gives %q", value, given)
		}
	}
}

// A Parquet file may have two fields of one name.
func TestFieldsOfMessagesTwice(t *testing.T) {
	text := func(name string) *schema.Node { return schema.Leaf(name, schema.Optional, parquet.String().Type()) }
	column := func(fields ...*schema.Node) *schema.Node {
		c := schema.List("messages", schema.Optional, schema.Group("", schema.Optional, fields...))
		schema.Number(schema.Group("row", schema.Required, c))
		return c
	}
	want(t, "once", schema.Fits("messages", column(text("role"), text("content"), text("name"))), true)
	want(t, "twice", schema.Fits("messages", column(text("role"), text("content"), text("content"))), false)
	want(t, "a member twice", schema.Fits("messages", column(text("name"), text("role"), text("content"),
		text("name"))),
		false)
}
