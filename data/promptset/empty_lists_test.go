package promptset

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestEmptyLists writes lists that are empty in every row as lists, and takes other files' elements where they have
// some.
func TestEmptyLists(t *testing.T) {
	const empty = `{"prompt":"a","tags":[],"m":{"k":[]}}` + "\n" + `{"prompt":"b","tags":null}` + "\n" +
		`{"prompt":"c","tags":[null]}` + "\n"
	for _, c := range []struct{ other, tags, values, schema string }{
		{"", "list of text", `[] null [null]`, "list of null"},
		{`{"prompt":"x","tags":[]}`, "list of text", `[] null [null] []`, "list of null"},
		{`{"prompt":"x","tags":null}`, "list of text", `[] null [null] null`, "list of null"},
		{`{"prompt":"x","tags":[1,2]}`, "list of int64", `[] null [null] [1,2]`, "list of int64"},
		{`{"prompt":"x","tags":[{"role":"a","content":"b"}]}`, "list of struct{role text, content text}",
			`[] null [null] [{"role":"a","content":"b"}]`, "list of struct{role text, content text}"},
		{`{"prompt":"x","tags":{"a":1}}`, "text", `[] null [null] {"a":1}`, "text"}, // JSON holds lists too
	} {
		for _, first := range []bool{true, false} {
			inputs, wanted := []string{write(t, "empty.jsonl", empty)}, strings.Fields(c.values)
			switch other := write(t, "other.jsonl", c.other); {
			case c.other == "":
			case first:
				inputs = append(inputs, other)
			default:
				inputs = append([]string{other}, inputs...)
				wanted = append(wanted[3:], wanted[:3]...)
			}
			r := open(t, inputs...)
			if s := r.Schema().String(); !strings.Contains(s, "tags "+c.schema) {
				t.Errorf("%s: the schema is %s", c.other, s)
			}
			_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
			want(t, c.other, root.Field("tags").Describe(), c.tags)
			want(t, c.other, strings.Join(column(root, out, "tags"), " "), strings.Join(wanted, " "))
		}
	}
}

// TestEmptyListsGoWithNothingElse refuses what no list is.
func TestEmptyListsGoWithNothingElse(t *testing.T) {
	_, err := Open(t.Context(), []string{
		write(t, "a.jsonl", `{"prompt":"a","tags":[]}`+"\n"), write(t, "b.jsonl", `{"prompt":"a","tags":1}`+"\n"),
	})
	if err == nil || !strings.Contains(err.Error(), `column "tags" is int64 here and list of null in`) {
		t.Error(err)
	}
}
