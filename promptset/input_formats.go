package promptset

import (
	"bytes"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/quire/quire/promptset/arrow"
	"github.com/quire/quire/promptset/arrowfile"
	"github.com/quire/quire/promptset/csv"
	"github.com/quire/quire/promptset/input"
	"github.com/quire/quire/promptset/jsonl"
	"github.com/quire/quire/promptset/lines"
	"github.com/quire/quire/promptset/parquet"
)

// inputFormats are the formats of input files. A new one is an entry here, and help and errors list it.
var inputFormats = []*input.Format{
	{Name: "Parquet", Article: "a", Extensions: []string{".parquet"}, Magics: []string{"PAR1"}, Look: parquet.Look},
	{Name: "Arrow", Article: "an", Extensions: []string{".arrow", ".arrows", ".feather"},
		Magics: []string{arrowfile.Magic, arrowfile.StreamMagic, arrowfile.FeatherMagic}, Look: arrow.Look},
	{Name: "JSONL", Article: "a", Extensions: lines.Compressible(".jsonl"), Begins: jsonl.Begins, Look: jsonl.Look,
		Appends: true},
	{Name: "CSV", Article: "a", Extensions: csv.Extensions, Look: csv.Look, Appends: true},
}

// InputFormats lists the formats of input files, for people.
func InputFormats() string {
	var names []string
	for _, f := range inputFormats {
		names = append(names, f.Name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// extensions are those of all formats.
func extensions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range inputFormats {
			for _, e := range f.Extensions {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func listExtensions() string { return strings.Join(slices.Collect(extensions()), ", ") }

// formatByName returns the format that the name of a file tells, nil where it tells none.
func formatByName(name string) *input.Format {
	if name == StandardInput {
		name = ".jsonl"
	}
	for _, f := range inputFormats {
		if slices.ContainsFunc(f.Extensions, func(e string) bool { return strings.HasSuffix(name, e) }) {
			return f
		}
	}
	return nil
}

func hasExtension(name string) bool { return formatByName(name) != nil }

// NamesInput says whether a name is that of an input file by its extension.
func NamesInput(name string) bool { return hasExtension(name) }

// formatOfInput tells the formats apart by name, or by the start of a file with another name.
func formatOfInput(name string, f File) (*input.Format, error) {
	if format := formatByName(name); format != nil {
		return format, nil
	}
	start := make([]byte, 4096)
	n, _ := f.ReadAt(start, 0)
	start = start[:n]
	var told []string
	for _, format := range inputFormats {
		if len(format.Magics) == 0 {
			continue
		}
		if slices.ContainsFunc(format.Magics, func(m string) bool { return strings.HasPrefix(string(start), m) }) {
			return format, nil
		}
		told = append(told, format.Any())
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(start, []byte(lines.ByteOrderMark)))
	for _, format := range inputFormats {
		if format.Begins != nil && format.Begins(text) {
			return format, nil
		}
	}
	what := fmt.Sprintf("neither %s nor JSONL, which begins with an object on a line, nor named %s",
		strings.Join(told, " nor "), listExtensions())
	if len(text) > 0 && (text[0] == '[' || text[0] == '{') {
		what = fmt.Sprintf("it seems to be one JSON document over several lines: write an object on each line; a JSON "+
			"array becomes lines by jq -c '.[]' %s > %s.jsonl", name, strings.TrimSuffix(path.Base(name), ".json"))
	}
	return nil, &FileError{File: name, What: what}
}
