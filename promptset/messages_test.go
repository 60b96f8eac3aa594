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

	"github.com/quire/quire/parameter"
)

// what is the error of a row without its place, or "".
func what(r *Row) string {
	if r.Err == nil {
		return ""
	}
	return r.Err.(*RowError).What
}

// A member of a message that no template gets makes the row an error where it asks for something.
func TestMembersOfMessages(t *testing.T) {
	for _, c := range []struct{ members, want string }{
		{
			`"content":"a","name":"bob"`,
			`messages[1].name is not supported as "bob"; leave it out or put it into content`},
		{
			`"name":"bob","content":"a"`,
			`messages[1].name is not supported as "bob"; leave it out or put it into content`},
		{`"content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]`,
			`messages[1].tool_calls is not supported as [{"type":"function","function":{"name":"... leave it out or give the ` +
				`rendered text as prompt`},
		{`"content":"a","images":["a.png"]`, `messages[1].images is not supported as ["a.png"]; leave it out`},
		{`"content":"a","prefix":true`,
			`messages[1].prefix is not supported as true; leave it out or give the rendered text as prompt`},
		{`"content":"a","name":null,"refusal":"","tool_calls":[],"function_call":{"name":null},"prefix":false`, ``},
		{`"content":"a","weight":0,"id":7,"from":"x","timestamp":"now"`, ``},

		{`"content":"a","content":"b"`, `messages[1]: the key "content" is there twice; keep one`},
		{`"content":"a","role":"system"`, `messages[1]: the key "role" is there twice; keep one`},
		{`"content":"a","weight":1,"weight":2`, `messages[1]: the key "weight" is there twice; keep one`},

		{`"name":"bob"`, `messages[1].name is not supported as "bob"`},
		{`"content":null`, `messages[1] has no content; give it text`},
		{`"weight":1`, `messages[1] has no content; give it text`},
		{`"content":[{"type":"text","text":"a"}]`,
			`messages[1].content is a list [{"type":"text","text":"a"}]; it must be text`},
		{`"content":{"type":"text"}`, `messages[1].content is an object; it must be text`},
	} {
		line := `{"messages":[{"role":"system","content":"s"},{"role":"user",` + c.members + `}]}`
		row := rows(t, open(t, write(t, "x.jsonl", line)))[0]
		want := strings.Replace(c.want, "... leave", "...; leave", 1)
		if got := what(row); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s:\n got %s\nwant %s", c.members, got, want)
		}
		if want == "" && !reflect.DeepEqual(row.Messages, []Message{{"system", "s"}, {"user", "a"}}) {
			t.Errorf("%s: got %v", c.members, row.Messages)
		}
	}
}

// All members of the table are refused, whatever their values are.
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
	}); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	got := rows(t, r)
	want(t, "refused", what(got[0]), `messages[1].name is not supported as "bob"; leave it out or put it into content`)
	want(t, "good", fmt.Sprint(got[1].Messages)+what(got[1]), "[{user a} {assistant b}]")
	want(t, "passed", fmt.Sprint(r.PassedMembers()), "[id]")
}

// A Parquet file may have two fields of one name.
func TestFieldsOfMessagesTwice(t *testing.T) {
	text := func(name string) *node { return leafNode(name, optional, parquet.String().Type()) }
	column := func(fields ...*node) *node {
		c := listNode("messages", optional, groupNode("", optional, fields...))
		number(groupNode("row", required, c))
		return c
	}
	want(t, "once", fits("messages", column(text("role"), text("content"), text("name"))), true)
	want(t, "twice", fits("messages", column(text("role"), text("content"), text("content"))), false)
	want(t, "a member twice", fits("messages", column(text("name"), text("role"), text("content"), text("name"))),
		false)
}

// The user's own members are noted over all files, each once.
func TestPassedMembers(t *testing.T) {
	r := open(t, write(t, "a.jsonl", `{"messages":[{"role":"user","content":"a"}]}
{"messages":[{"role":"user","content":"a","name":"b","tool_calls":[]},{"role":"user","content":"a","id":1}]}
{"messages":[{"role":"user","content":"a","timestamp":0,"id":2,"unset":null}]}
{"messages":"none"}
`), write(t, "b.jsonl", `{"prompt":"a","unread":1}
{"messages":[{"role":"user","content":"a","weight":1,"id":1}]}`))
	want(t, "members", fmt.Sprint(r.PassedMembers()), "[id timestamp weight]")
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(path, []wideRow{{}}); err != nil {
		t.Fatal(err)
	}
	want(t, "parquet", fmt.Sprint(open(t, path).PassedMembers()), "[weight]")
	want(t, "none", len(open(t, write(t, "c.jsonl", `{"messages":[{"role":"user","content":"a"}]}`)).PassedMembers()),
		0)
}
