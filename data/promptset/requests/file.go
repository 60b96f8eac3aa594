package requests

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/internal/visible"
)

// File is what is known of a batch file's lines.
type File struct {
	// Name is the file's name, and Called the name that rows use, if it differs.
	Name, Called string
	// Bodies are the parameters in the bodies of lines, in order of first appearance.
	Bodies []string

	Is       bool               // the file has lines of a batch file
	ids      []customID         // ids of its lines, until repeated is known
	repeated map[int64]customID // by row: the earlier line with its custom_id
}

// customID is the custom_id of a line of a batch file, as a digest that no two ids share, and its position.
type customID struct {
	name      [16]byte
	file      *File
	row, line int64
}

// Note records a line during the scan of a file: whether it is a line of a batch file, and its id.
func (f *File) Note(object []jsonvalue.Member, row, line int64) {
	id := jsonvalue.Find(object, "custom_id")
	if id == nil || jsonvalue.Find(object, "url") == nil && jsonvalue.Find(object, "body") == nil {
		return
	}
	if Is(object) {
		f.Is = true
		f.noteBody(jsonvalue.Find(object, "body"))
	}
	var text string
	if json.Unmarshal(id, &text) == nil && text != "" {
		sum := sha256.Sum256([]byte(text))
		f.ids = append(f.ids, customID{[16]byte(sum[:16]), f, row, line})
	}
}

// noteBody records the parameters in the body of a line.
func (f *File) noteBody(raw json.RawMessage) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	body, _ := jsonvalue.Members(raw)
	for _, m := range body {
		if !jsonvalue.IsNull(m.Raw) && !slices.Contains(f.Bodies, m.Key) && len(parameter.Lookup(m.Key)) > 0 {
			f.Bodies = append(f.Bodies, m.Key)
		}
	}
}

// Columns returns the columns of a batch file, which do not depend on its lines. They replace the columns that the
// lines seem to make.
func (f *File) Columns(columns []*schema.Node) []*schema.Node {
	for i, c := range columns {
		switch {
		case c.Name == "body":
			columns[i] = schema.JSONAny.Node(c.Name)
		case slices.Contains(openai.Keys, c.Name):
			columns[i] = schema.JSONText.Node(c.Name)
		}
	}
	return columns
}

// FindRepeated finds the lines of batch files, in the order of reading, whose custom_id occurred before.
func FindRepeated(files []*File) {
	var all []customID
	place := map[*File]int{}
	for i, f := range files {
		all = append(all, f.ids...)
		place[f], f.ids = i, nil
	}
	slices.SortFunc(all, func(a, b customID) int {
		return cmp.Or(bytes.Compare(a.name[:], b.name[:]), cmp.Compare(place[a.file], place[b.file]),
			cmp.Compare(a.row, b.row))
	})
	first := 0
	for i := 1; i < len(all); i++ {
		if all[i].name != all[first].name {
			first = i
			continue
		}
		f := all[i].file
		if f.repeated == nil {
			f.repeated = map[int64]customID{}
		}
		f.repeated[all[i].row] = all[first]
	}
}

// Read sets a row from its line, and returns which prompts are given.
func (f *File) Read(r *record.Builder, object record.Object, m *record.Mapping) (given []string) {
	given = decodeRequest(r, object, m)
	if first, again := f.repeated[r.FileRow]; again {
		where := fmt.Sprintf("line %d", first.line)
		if first.file != f {
			where = cmp.Or(first.file.Called, first.file.Name) + " " + where
		}
		r.Blame("custom_id", openai.CodeRepeatedID, func() {
			r.Fail("custom_id %s is that of %s; give each line its own", visible.Quoted(r.ID), where)
		})
	}
	return given
}

// ReadDamaged sets a row to what is known of an unreadable line: its id, or nothing.
func (f *File) ReadDamaged(r *record.Builder) {
	r.Source, r.InBody = source{nil, &Request{CustomID: r.ID}}, true
}
