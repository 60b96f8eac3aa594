package promptset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/vfs"
)

const mixedCSV = "\xef\xbb\xbfid,prompt,note,temperature,max_tokens,stop,ignore_eos,seed\r\n" +
	"007,\"one, \"\"two\"\"\r\nthree\",,0.5,8,\"[\"\"a\"\",\"\"b\"\"]\",True,18446744073709551615\r\n" +
	"\r\n" +
	"x,plain,\"\",,,.,,\r\n" +
	"y,too,many,1,2,3,true,4,5\r\n" +
	"z,say \"hi\",n,1,2,3,true,4\r\n" +
	"w,\"open\"ed,n,1,2,3,true,4\r\n" +
	"h,hot,n,warm,,,,\r\n" +
	",,n,1,2,3,true,4\r\n" +
	"last,fin\xc3\xa9,7,1.5,3,\"x\",false,0"

func TestCSVRows(t *testing.T) {
	path := write(t, "x.csv", mixedCSV)
	got := rows(t, open(t, path))
	for i, expect := range []string{
		`007 "one, \"two\"\r\nthree" temperature=0.5 max_tokens=8 stop=["a","b"] ignore_eos=true seed=18446744073709551615`,
		`x "plain" stop=["."]`,
		`line 6: the row has 9 fields and the header 8; put fields with commas in quotes`,
		`line 7: field 2 has a quote within: put the whole field in quotes and double those in it`,
		`line 8: field 2 has text after its closing quote: double the quotes in the field`,
		`line 9: temperature is text "warm"; it must be a number`,
		`line 10: no prompt; give one of prompt, messages, prompt_token_ids`,
		`last "finé" temperature=1.5 max_tokens=3 stop=["x"] ignore_eos=false seed=0`,
	} {
		row := got[i]
		s := strings.TrimPrefix(fmt.Sprint(row.Err), path+" ")
		if row.Err == nil {
			s = fmt.Sprintf("%s %q", row.ID, row.Prompt)
			for _, name := range []string{"temperature", "max_tokens", "stop", "ignore_eos", "seed"} {
				if text := row.Overrides.Text(name); text != "" {
					s += " " + name + "=" + text
				}
			}
		}
		want(t, fmt.Sprint("row ", i), s, expect)
	}
	want(t, "rows", len(got), 8)
}

func TestCSVToOutputs(t *testing.T) {
	r := open(t, write(t, "x.csv", mixedCSV))
	want(t, "schema", r.Schema().String(), "id text, prompt text, note text, temperature double, max_tokens int64, "+
		"stop list of text, ignore_eos boolean, seed uint64")
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	for name, expect := range map[string]string{
		"note": `null "" null null null "n" "n" "7"`, "temperature": "0.5 null null null null null 1 1.5",
		"id":   `"007" "x" "" "" "" "h" "6" "last"`,
		"stop": `["a","b"] ["."] null null null null ["3"] ["x"]`,
	} {
		want(t, name, strings.Join(column(root, out, name), " "), expect)
	}
	lines := text(t, filepath.Join(complete(t, r, WriterOptions{Format: FormatJSONL}, 1), "part-00000.jsonl"))
	first, _, _ := strings.Cut(lines, "\n")
	want(t, "line", first, `{"prompt":"one, \"two\"\r\nthree","note":null,"temperature":0.5,"max_tokens":8,`+
		`"stop":["a","b"],"ignore_eos":true,"seed":18446744073709551615,"id":"007","generation":0,"text":"answer to 007",`+
		`"token_ids":[0,7],"logprobs":[-0.5,-0.25],"finish_reason":"stop","prompt_tokens":3,"completion_tokens":2,"error":null}`)
}

// Messages, token ids, and names of other engines.
func TestCSVColumns(t *testing.T) {
	header := "messages,prompt_token_ids,max_completion_tokens,diversity_penalty,tools,\n"
	got := rows(t, open(t, write(t, "x.csv", header+
		`"[{""role"":""user"",""content"":""hi""}]",,5,0,"[{""type"": ""function""}]",0`+"\n"+
		`,"[1, 2]",,,,1`+"\n,[1.5],,,,2\n,x,,,,3\n,[1],,2,,4\n")))
	want(t, "messages", fmt.Sprint(got[0].Kind, got[0].Messages, got[0].Overrides.Text("max_tokens"),
		got[0].Overrides.Text("tools"), got[0].Err), `messages [{user hi }]5[{"type":"function"}]<nil>`)
	want(t, "token ids", fmt.Sprint(got[1].Kind, got[1].TokenIDs, got[1].Err), "prompt_token_ids [1 2] <nil>")
	for i, expect := range []string{"prompt_token_ids[0] is 1.5; give a token id",
		`prompt_token_ids is text "x"; it must be list of integers`,
		"parameter diversity_penalty is not supported as 2"} {
		if err := got[i+2].Err; err == nil || !strings.Contains(err.Error(), expect) {
			t.Errorf("row %d: %v, want %s", i+2, err, expect)
		}
	}
}

func TestCSVFiles(t *testing.T) {
	for text, expect := range map[string]string{
		"":                       "it is empty; its first line names the columns",
		"\n\r\n":                 "it is empty; its first line names the columns",
		"a,b\n1,2\n":             "no prompt column: it needs one of prompt, messages, prompt_token_ids and has a, b",
		"prompt,prompt\n1,2\n":   `two columns are named "prompt"; rename one`,
		"prompt,\"x\ny\n":        "the quotes around field 2, which begin on line 1, do not end",
		"prompt,\xff\n":          "its header is not valid UTF-8",
		"id;x\n1;2\n":            "it needs one of prompt, messages, prompt_token_ids and has id, x",
		"id;prompt,\n1;2\n":      "it needs one of prompt, messages, prompt_token_ids and has id;prompt, column1",
		"pro\"mpt\n1\n":          "its header can't be read: field 1 has a quote within",
		"prompt,\"a\"b\n1,2\n":   "its header can't be read: field 2 has text after its closing quote",
		"custom_id,url,body\n1,": "no prompt column",
	} {
		_, err := Open(context.Background(), []string{write(t, "x.csv", text)})
		if wrong := (*FileError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), expect) {
			t.Errorf("%q: %v, want %s", text, err, expect)
		}
	}
	// A quote that does not end swallows the rows after it, and the error says so; the rows before it are read.
	got := rows(t, open(t, write(t, "x.csv", "prompt,a\nfirst,1\n\"second,2\nthird,3\n")))
	want(t, "rows", len(got), 2)
	want(t, "error", strings.Contains(fmt.Sprint(got[1].Err), "line 3: the quotes around field 1, which begin on line "+
		"3, do not end by line 4: end them, or double the quotes in the field"), true)
	// One that ends too late takes no more than the lines up to there.
	got = rows(t, open(t, write(t, "x.csv", "prompt,a\n\"second,2\nthird,\"3\"\nfourth,4\n")))
	want(t, "rows", len(got), 2)
	want(t, "after it", got[1].Prompt, "fourth")
}

// Semicolons, tabs or vertical bars stand for the commas where the header has no comma, and tabs in a TSV file.
func TestCSVDelimiters(t *testing.T) {
	for name, text := range map[string]string{
		"semicolons.csv": "prompt;n;note\na,b;2;\"x;\ny\"\n",
		"tabs.csv":       "prompt\tn\tnote\na,b\t2\t\"x;\ny\"\n",
		"bars.csv":       "prompt|n|note\na,b|2|\"x;\ny\"\n",
		"commas.csv":     "prompt,n,note\n\"a,b\",2,\"x;\ny\"\n",
		"tabs.tsv":       "prompt\tn\tnote\na,b\t2\t\"x;\ny\"\n",
		"blank.csv":      "\r\n\nprompt;n;note\na,b;2;\"x;\ny\"\n",
		"quoted.csv":     "prompt;n;\"note\"\n\"a,b\";2;\"x;\ny\"\n",
	} {
		for _, r := range rows(t, open(t, write(t, name, text))) {
			want(t, name, fmt.Sprint(r.Prompt, " ", r.Overrides.Text("n"), " ", r.Err), "a,b 2 <nil>")
		}
	}
	got := rows(t, open(t, write(t, "x.csv", "prompt;n\na;1;2\nb;1\n")))
	want(t, "error", strings.Contains(fmt.Sprint(got[0].Err), "put fields with semicolons in quotes"), true)
	// What separates columns elsewhere may be part of a column's name.
	_, err := Open(context.Background(), []string{write(t, "x.tsv", "prompt,n\na,1\n")})
	want(t, "commas in a TSV file", strings.Contains(fmt.Sprint(err), "and has prompt,n"), true)
	_, err = Open(context.Background(), []string{write(t, "y.csv", "\"prompt;n\"\na\n")})
	want(t, "a column's name in quotes", strings.Contains(fmt.Sprint(err), "and has prompt;n"), true)
}

// For any line ends, also mixed ones, rows and their line numbers are the same. Within quotes line ends are text.
func TestCSVLineEnds(t *testing.T) {
	const lines = "prompt,note~x,1~~\"two,\rlines\",\"\"~bad~z,3~"
	for name, ends := range map[string][]string{"lf": {"\n"}, "crlf": {"\r\n"}, "cr": {"\r"}, "crcrlf": {"\r\r\n"},
		"mixed": {"\r", "\n", "\r\n", "\n", "\r"}} {
		for _, last := range []bool{true, false} {
			for _, name := range []string{name + ".csv", name + ".tsv"} {
				var b strings.Builder
				for i, text := range strings.SplitAfter(lines, "~") {
					body, ended := strings.CutSuffix(text, "~")
					if b.WriteString(body); ended && (last || i < 5) {
						b.WriteString(ends[i%len(ends)])
					}
				}
				text := b.String()
				if strings.HasSuffix(name, ".tsv") {
					text = strings.ReplaceAll(strings.ReplaceAll(text, "two,", "two;"), ",", "\t")
				}
				got := rows(t, open(t, write(t, name, text)))
				want(t, name+" rows", len(got), 4)
				want(t, name+" first", got[0].Prompt+string(jsonvalue.Find(got[0].Source.(record.Object), "note")),
					`x"1"`)
				want(t, name+" quoted", strings.ReplaceAll(got[1].Prompt, ";", ","), "two,\rlines")
				want(t, name+" bad", strings.Contains(fmt.Sprint(got[2].Err), "has 1 field and the header 2"), true)
				want(t, name+" last", got[3].Prompt, "z")
				if !strings.HasPrefix(name, "crcrlf") {
					want(t, name+" line", got[2].Line, int64(6))
				}
			}
		}
	}
	// A file of one line without an end has no rows, and its header is not read for ever.
	_, err := Open(context.Background(), []string{write(t, "wide.csv", "prompt"+strings.Repeat(",a", schema.MaxKeys))})
	want(t, "header", strings.Contains(fmt.Sprint(err), "more than"), true)
}

// Rows in the middle of a file are found by marks, and equal those of a complete reading.
func TestCSVRange(t *testing.T) {
	var b strings.Builder
	b.WriteString("prompt,n\n")
	for i := range 3*lines.MarkEvery + 5 {
		end := []string{"\n", "\r\n", "\r"}[i%3]
		fmt.Fprintf(&b, "\"row %d\nof \"\"many\"\"\",%d%s%s", i, 1+i%3, end, end)
	}
	r := open(t, write(t, "x.csv", b.String()))
	all := rows(t, r)
	for _, from := range []int64{0, 1, lines.MarkEvery - 1, lines.MarkEvery, lines.MarkEvery + 1, 3 * lines.MarkEvery,
		r.NumRows() - 1} {
		i := from
		for row := range r.Range(context.Background(), from, min(from+3, r.NumRows())) {
			want(t, "prompt", row.Prompt, fmt.Sprintf("row %d\nof \"many\"", i))
			want(t, "line", row.Line, 2+3*i)
			want(t, "as read whole", fmt.Sprint(*row), fmt.Sprint(*all[i]))
			i++
		}
		want(t, "rows", i, min(from+3, r.NumRows()))
	}
}

func TestCSVRowTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 130 MB")
	}
	long := strings.Repeat("x\n", lines.MaxLine/2)
	got := rows(t, open(t, write(t, "x.csv", "prompt\na\n\""+long+"\"\nb\n")))
	want(t, "rows", len(got), 3)
	want(t, "error", strings.Contains(fmt.Sprint(got[1].Err), "line 3: it is longer than 64 MiB; split the row"), true)
	want(t, "after it", got[2].Prompt+fmt.Sprint(got[2].Line), fmt.Sprint("b", 4+lines.MaxLine/2))
}

// Any range of rows is what all rows have there, and what is written can be read.
func FuzzCSVRows(f *testing.F) {
	f.Add([]byte(mixedCSV))
	f.Add([]byte("prompt,a\n\"x\n\"\"y\",1\nz,\"\"\n\n,\n\"a\"b,2\nc\"d,3\n\"open"))
	f.Add([]byte("prompt,a\rx,\"1\r2\"\r\r\ny,3\r"))
	f.Add([]byte("prompt;a\n\"x;\ny\";1,5\nz|\n"))
	f.Add([]byte("\"pro\tmpt\"\tprompt\na\tb\n"))
	path := filepath.Join(f.TempDir(), "fuzz.csv")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := Open(context.Background(), []string{path})
		if err != nil {
			return
		}
		in := rows(t, r)
		for from := range r.NumRows() {
			for row := range r.Range(context.Background(), from, from+1) {
				want(t, "row alone", fmt.Sprint(*row), fmt.Sprint(*in[from]))
			}
		}
		written := vfs.NewMem()
		completeIn(t, written, "jsonl", r, WriterOptions{Format: FormatJSONL}, 1)
		for i, line := range strings.Split(string(bytesOf(t, written, "jsonl/part-00000.jsonl")), "\n")[:len(in)] {
			if _, err := jsonvalue.ParseRow([]byte(line)); err != nil {
				t.Fatalf("row %d is written as %s: %v", i, line, err)
			}
		}
		completeIn(t, written, "parquet", r, WriterOptions{}, 1)
		if _, _, out := parsedBytes(t, bytesOf(t, written, "parquet/part-00000.parquet")); len(out) != len(in) {
			t.Fatalf("%d rows of %d are written", len(out), len(in))
		}
	})
}
