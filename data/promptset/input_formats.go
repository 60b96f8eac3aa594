package promptset

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/arrow"
	"github.com/quire/quire/data/promptset/arrowfile"
	"github.com/quire/quire/data/promptset/csv"
	"github.com/quire/quire/data/promptset/document"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonl"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/parquet"
)

// inputFormats lists the formats of input files. To add one, add an entry: help and errors list it.
var inputFormats = []*input.Format{
	{Name: "Parquet", Article: "a", Extensions: []string{".parquet"}, Magics: []string{"PAR1"}, Look: parquet.Look},
	{Name: "Arrow", Article: "an", Extensions: []string{".arrow", ".arrows", ".feather"},
		Magics: []string{arrowfile.Magic, arrowfile.StreamMagic, arrowfile.FeatherMagic}, Look: arrow.Look},
	{Name: "JSON", Article: "a", Extensions: []string{".json"}, ByContent: true, Begins: document.Begins,
		Look: document.Look},
	{Name: "JSONL", Article: "a", Extensions: jsonl.Extensions, Begins: jsonl.Begins, Look: jsonl.Look,
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

// listExtensions lists the extensions that identify a format.
func listExtensions() string {
	var all []string
	for _, f := range inputFormats {
		if !f.ByContent {
			all = append(all, f.Extensions...)
		}
	}
	return strings.Join(all, ", ")
}

// formatByName returns the format that the name of a file identifies, nil if there is none.
func formatByName(name string) *input.Format {
	if name == StandardInput {
		name = ".jsonl"
	}
	if f := named(name); f != nil && !f.ByContent {
		return f
	}
	return nil
}

// named returns the format that has the extension of a name, in any case, nil if none has.
func named(name string) *input.Format {
	name = strings.ToLower(name)
	for _, f := range inputFormats {
		if slices.ContainsFunc(f.Extensions, func(e string) bool { return strings.HasSuffix(name, e) }) {
			return f
		}
	}
	return nil
}

func hasExtension(name string) bool { return formatByName(name) != nil }

// NamesInput reports whether a name may be an input file's, by its extension.
func NamesInput(name string) bool { return name == StandardInput || named(name) != nil }

// formatOfInput identifies the format by name, or by the start of the file if the name does not tell.
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
		if format.Begins != nil && format.Begins(text, f) {
			return format, nil
		}
	}
	what := fmt.Sprintf("neither %s nor JSONL, which begins with an object on a line, nor named %s",
		strings.Join(told, " nor "), listExtensions())
	if len(text) > 0 && text[0] == '{' {
		what = "it seems to be one JSON object over several lines, and not of columns: write an object on each line, " +
			"an array of rows, or an object of columns, each of them a list"
	}
	return nil, &FileError{File: name, What: what}
}
