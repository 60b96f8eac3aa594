package promptset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset/openai"
)

// RequestFile is what the lines of a batch file come to.
type RequestFile struct {
	// Name is the file's, and Called is what rows call it, if that is another name.
	Name, Called string
	// Bodies are the parameters that the lines have, in order of first appearance.
	Bodies []string

	is       bool               // lines of a batch file are in it
	ids      []customID         // of its lines, until repeated is known
	repeated map[int64]customID // by row: the line before it that has its custom_id
}

// customID is the custom_id of a line of a batch file, by a digest that no two ids share, and where it is.
type customID struct {
	name      [16]byte
	file      *RequestFile
	row, line int64
}

// note notes a line that the scan of a file comes to: whether it is one of a batch file, and its id.
func (f *RequestFile) note(object []member, row, line int64) {
	id := valueOf(object, "custom_id")
	if id == nil || valueOf(object, "url") == nil && valueOf(object, "body") == nil {
		return
	}
	if isRequest(object) {
		f.is = true
		f.noteBody(valueOf(object, "body"))
	}
	var text string
	if json.Unmarshal(id, &text) == nil && text != "" {
		sum := sha256.Sum256([]byte(text))
		f.ids = append(f.ids, customID{[16]byte(sum[:16]), f, row, line})
	}
}

// noteBody notes which parameters the body of a line has.
func (f *RequestFile) noteBody(raw json.RawMessage) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	body, _ := membersOf(raw)
	for _, m := range body {
		if !isNullJSON(m.raw) && !slices.Contains(f.Bodies, m.key) && len(parameter.Lookup(m.key)) > 0 {
			f.Bodies = append(f.Bodies, m.key)
		}
	}
}

// columns are the columns of a batch file, whatever is in its lines, in place of those that these seem to make.
func (f *RequestFile) columns(columns []*node) []*node {
	for i, c := range columns {
		switch {
		case c.name == "body":
			columns[i] = jsonAny.node(c.name)
		case slices.Contains(openai.Keys, c.name):
			columns[i] = jsonText.node(c.name)
		}
	}
	return columns
}

// FindRepeated finds the lines of batch files, in the order of reading, whose custom_id an earlier line has.
func FindRepeated(files []*RequestFile) {
	var all []customID
	place := map[*RequestFile]int{}
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

// Read sets a row to what its line has, and returns which prompts are given.
func (f *RequestFile) Read(r *Builder, object Object, m *Mapping) (given []string) {
	given = decodeRequest(r, object, m)
	if first, again := f.repeated[r.FileRow]; again {
		at := fmt.Sprintf("line %d", first.line)
		if first.file != f {
			at = cmp.Or(first.file.Called, first.file.Name) + " " + at
		}
		r.blame("custom_id", openai.CodeRepeatedID, func() {
			r.fail("custom_id %s is that of %s; give each line one of its own", visible.Quoted(r.ID), at)
		})
	}
	return given
}

// ReadDamaged sets a row to what is known of a line that cannot be read: its id, or nothing.
func (f *RequestFile) ReadDamaged(r *Builder) {
	r.Source, r.inBody = requestLine{nil, &Request{customID: r.ID}}, true
}
