package promptset

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/vfs"
)

func TestJSONLRows(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"prompt":"a"}`, `prompt id=0 "a"`},
		{`{"prompt":"","id":"x"}`, `prompt id=x ""`},
		{`{"prompt":"\ud83d\ude00\\ud83d","id":17}`, `prompt id=17 "😀\\ud83d"`},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""}]}`,
			`messages id=0 [{user hi } {assistant  }]`},
		{`{"prompt":null,"messages":null,"prompt_token_ids":[1,2.0,3e0]}`, `prompt_token_ids id=0 [1 2 3]`},
		{
			`{"prompt":"a","n":4,"max_tokens":8.0,"temperature":1,"top_k":-1,"top_p":0.9,"min_p":0,"seed":18446744073709551615,"generation":2,"stop":"x","ignore_eos":true}`,
			`prompt id=0 "a" n=4 max_tokens=8 temperature=1 top_k=-1 top_p=0.9 min_p=0 ` +
				`seed=18446744073709551615 generation=2 stop=["x"] ignore_eos=true`},
		{`{"prompt":"a","seed":0,"stop":[],"n":null}`, `prompt id=0 "a" seed=0 stop=[]`},
		{`{"prompt":"a","unknown":{"deep":[1]}}`, `prompt id=0 "a"`},

		{`{"prompt":null}`, `no prompt; give one of prompt, messages, prompt_token_ids`},
		{`{"id":"x","prompt":5}`, `prompt is the number 5; it must be text or binary`},
		{`{"prompt":"a","messages":[]}`, `more than one prompt (prompt, messages); keep one and leave the others null`},
		{`{"messages":[]}`, `messages is empty; give at least one message`},
		{`{"messages":"hi"}`, `messages is text "hi"; it must be list of struct{role text, content text}`},
		{`{"messages":[{}]}`, `messages[0] has no role; use one of system,`},
		{`{"messages":[{"role":"user","content":["x"]}]}`,
			`messages[0].content[0] is text "x"; it must be an object with the type text`},
		{`{"messages":[{"role":1,"content":null}]}`, `messages[0].role is the number 1; it must be text`},
		{`{"messages":[null]}`, `messages[0] has no role; use one of system,`},
		{`{"messages":[{"role":"usr","content":"x"}]}`, `messages[0] has the unknown role "usr"; use one of system,`},
		{`{"prompt_token_ids":[]}`, `prompt_token_ids is empty`},
		{`{"prompt_token_ids":[1,null]}`, `prompt_token_ids[1] is null; give a token id`},
		{`{"prompt_token_ids":[-1]}`, `prompt_token_ids[0] is -1; token ids are 0 to 2147483647`},
		{`{"prompt_token_ids":[1.5]}`, `prompt_token_ids[0] is 1.5; give a token id`},
		{`{"prompt":"a","n":"4"}`, `n is text "4"; it must be an integer`},
		{`{"prompt":"a","n":4.5}`, `n is 4.5; give a whole number`},
		{`{"prompt":"a","seed":-2}`, `seed is -2, but must be 0 to 18446744073709551615, or -1 for none`},
		{`{"prompt":"a","seed":-2.0}`, `seed is -2, but must be 0 to 18446744073709551615, or -1 for none`},
		{`{"prompt":"a","seed":18446744073709551616}`,
			`seed is 18446744073709551616, but must be 0 to 18446744073709551615`},
		{`{"prompt":"a","seed":1.5}`, `seed is 1.5; give a whole number`},
		{`{"prompt":"a","top_k":9223372036854775808}`,
			`top_k is 9223372036854775808; it must fit a signed 64-bit integer`},
		{`{"prompt":"a","temperature":"hot"}`, `temperature is text "hot"; it must be a number`},
		{`{"prompt":"a","stop":[null]}`, `stop[0] is null; give text`},
		{`{"prompt":"a","stop":[1]}`, `stop is a list [1]; it must be text or list of text`},
		{`{"prompt":"a","ignore_eos":1}`, `ignore_eos is the number 1; it must be boolean`},
		{`{"prompt":"a","id":true}`, `id is the boolean true; it must be text or a whole number`},
		{`{"prompt":"a"`, `JSON syntax error near byte 13: unexpected end of JSON input; write one JSON object a line`},
		{`{"prompt":"a","score":-Infinity}`, `JSON syntax error near byte 24: JSON has no Infinity; write null`},
		{`{"prompt":"a","id":-123456789012345678901}`, `prompt id=-123456789012345678901 "a"`},
		{`{"prompt":"a","id":1e30}`, `id is the number 1e30; it must be text or a whole number`},
		{`{"prompt":"a"} x`, `JSON syntax error near byte 16`},
		{`["prompt"]`, `the line is not a JSON object; write {"prompt": ...}`},
		{`{"prompt":"a","prompt":"b"}`, `the key "prompt" is there twice; keep one`},
		{"{\"prompt\":\"\xff\"}", `the line is not valid UTF-8; re-encode it as UTF-8`},
		{`{"prompt":"\ud83d"}`, `the line has an unpaired \uD800-\uDFFF escape`},
		{`{"prompt":"\ude00\ud83d"}`, `the line has an unpaired`},
	} {
		// The second line makes the file one of prompts whatever the first is.
		path := write(t, "x.jsonl", c.line+"\n\n{\"prompt\":\"last\"}")
		got := rows(t, open(t, path))
		want(t, "goes on", got[1].Prompt, "last")
		row := got[0]
		if row.Err != nil {
			if s := row.Err.Error(); !strings.HasPrefix(s, path+" line 1: "+c.want) {
				t.Errorf("%s:\n got %s\nwant ...%s", c.line, s, c.want)
			}
			continue
		}
		s := fmt.Sprintf("%v id=%s ", row.Kind, row.ID)
		switch row.Kind {
		case KindText:
			s += fmt.Sprintf("%q", row.Prompt)
		case KindMessages:
			s += fmt.Sprint(row.Messages)
		case KindTokens:
			s += fmt.Sprint(row.TokenIDs)
		}
		for p := range parameter.Own() {
			if text := row.Overrides.Text(p.Name); text != "" {
				s += " " + p.Name + "=" + text
			}
		}
		want(t, c.line, s, c.want)
	}
}

const mixed = "\xef\xbb\xbf" +
	`{"id":"a","prompt":"one","topic":"x","score":1,"tags":["p","q"],"meta":{"k": [1, 2]},"big":12345678901234567890,"mix":1}
{"topic":null,"prompt":"two \u00e9","score":2.5,"tags":[],"meta":null,"ok":true,"mix":"s","text":"mine"}

not json
{"prompt":"three","n":"many","text":null,"late":[[1],[2]]}
`

func TestJSONLToParquet(t *testing.T) {
	r := open(t, write(t, "x.jsonl", mixed))
	want(t, "schema", r.Schema().String(),
		"id text, prompt text, topic text, score double, tags list of text, meta text, big text, mix text, ok "+
			"boolean, text text, n int64, late text")
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	for name, expect := range map[string]string{
		"prompt": `"one" "two é" null "three"`, "topic": `"x" null null null`, "score": "1 2.5 null null",
		"tags": `["p","q"] [] null null`, "meta": `{"k":[1,2]} null null null`,
		"big": "12345678901234567890 null null null",
		"mix": `1 "s" null null`, "ok": "null true null null", "input_text": `null "mine" null null`,
		"n":    "null null null null",
		"late": "null null null [[1],[2]]", "id": `"a" "1" "" "3"`, "finish_reason": `"stop" "stop" "error" "error"`,
		"text": `"answer to a" "answer to 1" null null`, "token_ids": "[0,7] [1,7] null null",
	} {
		want(t, name, strings.Join(column(root, out, name), " "), expect)
	}
	if e := column(root, out, "error"); !strings.Contains(e[2], "line 4: JSON syntax error") ||
		!strings.Contains(e[3], `line 5: n is text \"many\"`) || e[0] != "null" {
		t.Errorf("errors %v", e)
	}
}

func TestJSONLToJSONL(t *testing.T) {
	path := write(t, "x.jsonl", mixed)
	dir := complete(t, open(t, path), WriterOptions{Format: FormatJSONL,
		Meta: map[string]string{"model": "m", "a": "b"}}, 1)
	want(t, "rows", text(t, filepath.Join(dir, "part-00000.jsonl")), strings.ReplaceAll(
		`{"prompt":"one","topic":"x","score":1,"tags":["p","q"],"meta":{"k":[1,2]},"big":12345678901234567890,"mix":1,"id":"a","generation":0,"text":"answer to a","token_ids":[0,7],"logprobs":[-0.5,-0.25],"finish_reason":"stop","prompt_tokens":3,"completion_tokens":2,"error":null}
{"topic":null,"prompt":"two \u00e9","score":2.5,"tags":[],"meta":null,"ok":true,"mix":"s","input_text":"mine","id":"1","generation":0,"text":"answer to 1","token_ids":[1,7],"logprobs":[-0.5,-0.25],"finish_reason":"stop","prompt_tokens":3,"completion_tokens":2,"error":null}
{"id":"","generation":0,"text":null,"token_ids":null,"logprobs":null,"finish_reason":"error","prompt_tokens":0,"completion_tokens":0,"error":"FILE line 4: JSON syntax error near byte 2: invalid character 'o' in literal null (expecting 'u'); write one JSON object a line"}
{"prompt":"three","n":"many","input_text":null,"late":[[1],[2]],"id":"3","generation":0,"text":null,"token_ids":null,"logprobs":null,"finish_reason":"error","prompt_tokens":0,"completion_tokens":0,"error":"FILE line 5: n is text \"many\"; it must be an integer"}
`, "FILE", path))
	want(t, "meta", text(t, filepath.Join(dir, "_meta.json")), "{\n  \"a\": \"b\",\n  \"model\": \"m\"\n}\n")
}

func TestParquetToJSONL(t *testing.T) {
	got := text(t, filepath.Join(complete(t, open(t, "testdata/passthrough.parquet"),
		WriterOptions{Format: FormatJSONL}, 1), "part-00000.jsonl"))
	first, _, _ := strings.Cut(got, "\n")
	want(t, "first row", first,
		`{"prompt":"p0","input_text":"clash 0","i8":0,"u16":65535,"u64":18446744073709551615,"f16":0,"f32":0,"f64":null,`+
			`"bool":true,"bin":"AP8A","fixed":"AAAAAAA=","dec9":"-0.25","dec30":"12345678901234567890.125","date":"1969-12-28","time_ms":"01:02:00",`+
			`"time_ns":"01:02:00.000005","ts_us":"2024-02-29T12:30:00.123456","ts_ns_utc":"2024-02-29T12:30:00.123456Z",`+
			`"uuid":"00000000-0000-0000-0000-000000000001","dict":"a","nothing":null,"list":[1,null,3],"deep":[[["x"],[]],null],`+
			`"struct":{"a":1,"b":{"c":"x","d":[1.5]}},"map":{"k":1,"l":null},"list_of_struct":[{"x":1,"y":["a",null]},null],"needed":0,`+
			`"id":"0","generation":0,"text":"answer to 0","token_ids":[0,7],"logprobs":[-0.5,-0.25],"finish_reason":"stop","prompt_tokens":3,"completion_tokens":2,"error":null}`)
	got = text(t, filepath.Join(complete(t, open(t, "testdata/int96.parquet"), WriterOptions{Format: FormatJSONL}, 1),
		"part-00000.jsonl"))
	want(t, "int96", strings.Contains(got, `"when":"2024-02-29T12:30:01.123456Z"`), true)
}

func TestCompressedAndFolders(t *testing.T) {
	dir := t.TempDir()
	var gz, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write([]byte(`{"prompt":"gz"}`))
	g.Close()
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	z.Write([]byte(`{"prompt":"zst"}` + "\n"))
	z.Close()
	for name, b := range map[string][]byte{
		"b/2.jsonl.gz": gz.Bytes(), "b/3.jsonl.zst": zst.Bytes(), "a/1.jsonl": []byte("{\"prompt\":\"plain\"}\r\n"),
		"a/notes.txt": nil, ".hidden/x.jsonl": []byte("{"), "a/_meta.jsonl": []byte("{"), "c.jsonl": []byte(""),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, row := range rows(t, open(t, dir, filepath.Join(dir, "b", "*"))) { // the second names files again
		got = append(got, fmt.Sprintf("%s:%d", row.Prompt, row.FileRow))
	}
	want(t, "prompts", strings.Join(got, " "), "plain:0 gz:0 zst:0")

	cut := write(t, "cut.jsonl.gz", gz.String()[:gz.Len()-6])
	if _, err := Open(context.Background(), []string{cut}); err == nil ||
		!strings.Contains(err.Error(), "cut.jsonl.gz: cannot read it after line") {
		t.Errorf("cut off: %v", err)
	}
	if _, err := Open(context.Background(), []string{write(t, "x.jsonl", `{"question":"a"}`)}); err == nil ||
		!strings.Contains(err.Error(),
			"no prompt key: its rows need one of prompt, messages, prompt_token_ids and have question") {
		t.Errorf("no prompt: %v", err)
	}
}

func TestFilesThatChange(t *testing.T) {
	const three = "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n"
	path := write(t, "x.jsonl", three)
	r := open(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for content, problem := range map[string]string{
		strings.ToUpper(
			three): "it was written again since the job started; do not change inputs during a job",
		`{"prompt":"a"}`: "it had 45 bytes when the job started and has 14 now; do not change inputs during a job",
		strings.Replace(three, "}\n", "} ", 1) +
			"": "it had 3 rows when the job started and has 2 now; do not change inputs during a job",
		"": "no such file",
	} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		switch content {
		case "":
			os.Remove(path)
		case strings.ToUpper(three): // of the same size
			if err := os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}
		for row := range r.Rows(context.Background()) {
			if row.Index == 2 {
				t.Errorf("%s: read to the end", content)
			}
		}
		if fe := (*FileError)(nil); !errors.As(r.Err(), &fe) || fe.File != path ||
			!strings.Contains(fe.Error(), problem) {
			t.Errorf("%q: %v", content, r.Err())
		}
	}
	if err := errors.Join(os.WriteFile(path, []byte(three), 0o666),
		os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	for range r.Rows(ctx) {
		n++
		cancel()
	}
	want(t, "after cancel", fmt.Sprint(n, r.Err()), "1 context canceled")
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte(mixed))
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"}],"stop":["a"],"seed":1e3}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"a","content":"b"},null,{"name":"x","role":"user"}],"id":1}`))
	f.Add([]byte(`{"prompt_token_ids":[1],"x":[{"role":"a","content":"b"}],"y":[[]],"z":[1,2.5]}`))
	// Inputs share a file and outputs are in memory: most of an execution's time would be folders and fsync.
	path := filepath.Join(f.TempDir(), "fuzz.jsonl")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := Open(context.Background(), []string{path})
		if err != nil {
			return
		}
		in := rows(t, r)
		written := vfs.NewMem()
		completeIn(t, written, "jsonl", r, WriterOptions{Format: FormatJSONL}, 1)
		lines := strings.SplitAfter(string(bytesOf(t, written, "jsonl/part-00000.jsonl")), "\n")
		for i, line := range lines[:len(lines)-1] {
			if object, err := jsonvalue.ParseRow([]byte(line)); err != nil ||
				len(object) < len(outputColumns()) {
				t.Fatalf("row %d is written as %s: %v", i, line, err)
			}
		}
		completeIn(t, written, "parquet", r, WriterOptions{}, 1)
		_, root, out := parsedBytes(t, bytesOf(t, written, "parquet/part-00000.parquet"))
		if len(lines)-1 != len(in) || len(out) != len(in) {
			t.Fatalf("%d rows in, %d JSONL and %d Parquet rows out", len(in), len(lines)-1, len(out))
		}
		for i, prompt := range column(root, out, "prompt") {
			if in[i].Kind == KindText && prompt != string(jsonvalue.AppendText(nil, in[i].Prompt)) {
				t.Fatalf("row %d has the prompt %s, was %q", i, prompt, in[i].Prompt)
			}
		}
	})
}

// A file whose name does not identify a format is JSONL if it starts like it, and one of OpenAI's batch API if its
// lines are.
func TestJSONLWithoutAName(t *testing.T) {
	for _, before := range []string{"", "\xef\xbb\xbf", "\n \r\n"} {
		got := rows(t, open(t, write(t, "requests", before+`{"custom_id":"a","method":"POST","url":"/v1/completions",`+
			`"body":{"prompt":"x"}}`+"\nbad\n")))
		want(t, "rows", len(got), 2)
		want(t, "id and prompt", got[0].ID+got[0].Prompt, "ax")
		want(t, "error", strings.Contains(fmt.Sprint(got[1].Err), "requests line "), true)
	}
}

// The id of a damaged line is the one that can be read, or none: never another row's.
func TestIDsOfDamagedRows(t *testing.T) {
	for line, id := range map[string]string{
		`{"id":3,"prompt":"x","score":NaN}`:             "3",
		`{"id":"a","prompt":"x"`:                        "a",
		`{"id":"\u00e9","prompt":"\ud800"}`:             "é",
		"{\"prompt\":\"\xff\",\"id\":\"b\"}":            "b",
		"{\"id\":\"\xff\",\"prompt\":\"b\"}":            "",
		`{"id":"\ud800","prompt":"b"}`:                  "",
		`{"prompt":"x","score":NaN,"id":3}`:             "",
		`{"id":1,"prompt":"x","id":2}`:                  "",
		`{"id":null,"prompt":"x"`:                       "",
		`{"id":1.5,"prompt":"x"}`:                       "",
		`{"id":[1],"prompt":"x"}`:                       "",
		`{"inner":{"id":7},"prompt":x}`:                 "",
		`["id", 3]`:                                     "",
		`{"id":`:                                        "",
		`{"id":3`:                                       "3",
		`nonsense`:                                      "",
		`{"id":18446744073709551615,"prompt":"x","y":}`: "18446744073709551615",
	} {
		all := rows(t, open(t, write(t, "x.jsonl", `{"id":"0","prompt":"a"}`+"\n\n"+line+"\n"+`{"prompt":"c"}`)))
		if bad := all[1]; bad.Err == nil || bad.ID != id || !strings.Contains(bad.Err.Error(), "x.jsonl line 3: ") ||
			bad.HasID() != (id != "") || !bad.IsCalled(id) || !bad.IsCalled("1") || bad.IsCalled("2") {
			t.Errorf("%s: id %q, want %q; %v", line, bad.ID, id, bad.Err)
		}
		if last := all[2]; last.ID != "2" || !last.IsCalled("2") || last.IsCalled("1") {
			t.Errorf("%s: the row behind it has id %q", line, last.ID)
		}
	}
	for record, id := range map[string]string{
		"3,\"x\xff\"": "3", "\xff,x": "", "3,x,y": "", "3": "", "3,\"x\" y": "",
	} {
		all := rows(t, open(t, write(t, "x.csv", "id,prompt\n0,a\n"+record+"\n")))
		if bad := all[1]; bad.Err == nil || bad.ID != id || !strings.Contains(bad.Err.Error(), "x.csv line 3: ") {
			t.Errorf("%q: id %q, want %q; %v", record, bad.ID, id, bad.Err)
		}
	}
}
