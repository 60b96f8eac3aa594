package csv

import (
	"bytes"
	"encoding/csv"
	"io"
	"strings"
	"testing"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/record"
)

// Records equal encoding/csv's, which does not treat CR alone as the end of a line.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,prompt\n1,\"x,\ny\"\n"))
	f.Add([]byte("prompt,a\n\"x\n\"\"y\",1\nz,\"\"\n\n,\n\"a\"b,2\nc\"d,3\n\"open"))
	f.Add([]byte("prompt,a\rx,\"1\r2\"\r\ny,3\r"))
	f.Add([]byte("prompt;a\n\"x;\ny\";1,5\nz|\n"))
	f.Add([]byte("\"pro\tmpt\"\tprompt\na\tb\n"))
	f.Fuzz(compareRecords)
}

// withLF returns a text with LF for each line end outside of quotes.
func withLF(b []byte) []byte {
	quoted := false
	var out []byte
	for i, c := range b {
		quoted = quoted != (c == '"')
		if c != '\r' || quoted {
			out = append(out, c)
		} else if i+1 == len(b) || b[i+1] != '\n' {
			out = append(out, '\n')
		}
	}
	return out
}

// compareRecords compares the fields of records with those that encoding/csv finds, up to the first that is wrong.
func compareRecords(t *testing.T, b []byte) {
	l, err := lines.Open("x.csv", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	comma := delimiterOf(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	theirs := csv.NewReader(bytes.NewReader(withLF(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))))
	theirs.Comma = rune(comma)
	theirs.FieldsPerRecord = -1
	for {
		record, err := nextRecord(l, comma)
		expect, expectErr := theirs.Read()
		if err == io.EOF || expectErr == io.EOF {
			if err != io.EOF || expectErr != io.EOF {
				t.Fatalf("record %q, %v, and encoding/csv has %q, %v", record, err, expect, expectErr)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		fields, err := splitRecord(record, comma, l.First, l.Number)
		if expectErr != nil || err != nil {
			if (expectErr == nil) != (err == nil) {
				t.Fatalf("%q: %v, and encoding/csv says %v", record, err, expectErr)
			}
			return
		}
		if len(fields) != len(expect) {
			t.Fatalf("%q has the fields %v, and encoding/csv says %q", record, fields, expect)
		}
		for i, f := range fields {
			// encoding/csv has LF for each CR LF.
			if strings.ReplaceAll(f.text, "\r\n", "\n") != expect[i] {
				t.Fatalf("%q: field %d is %q, and encoding/csv says %q", record, i, f.text, expect[i])
			}
		}
	}
}

// Each of Quire's parameters can be given in a CSV file.
func TestCSVParameters(t *testing.T) {
	for p := range parameter.Own() {
		if kind := kindOf(p.Name, &record.Mapping{}); kind == asPassed {
			t.Errorf("%s would be passed through", p.Name)
		}
	}
}
