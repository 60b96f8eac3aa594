package promptset

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset/arrowfile"
)

// inputFormat is a format of input files.
type inputFormat struct {
	name       string   // for people, with its article
	extensions []string // of its files
	magics     []string // with one of which a file begins whose name says nothing
	csv        bool
	delimiter  byte // of CSV; 0: the header tells
	appends    bool // rows are added at the end, and those before stay bytes as they are
	// look reads what has to be known of a file before its rows: their number and its digest, which it sets, and its
	// columns, which it returns.
	look func(ctx context.Context, s *Source, f File) ([]*node, error)
	// rows gives rows of a file, numbered there, to yield. It returns false when yield did.
	rows func(ctx context.Context, in *opened, from, to int64, yield func(*Row) bool) (more bool, err error)
}

// opened is a file whose rows are read.
type opened struct {
	*Source
	file   File
	schema *Schema // of the job
}

// inputFormats are the formats. A new one is an entry here.
var inputFormats []*inputFormat

func init() { // which the functions of the entries refer to
	inputFormats = []*inputFormat{
		{name: "a Parquet file", extensions: []string{".parquet"}, magics: []string{"PAR1"}, look: lookParquet,
			rows: rowsOfParquet},
		{name: "an Arrow file", extensions: []string{".arrow", ".arrows", ".feather"}, look: lookArrow,
			rows:   rowsOfArrow,
			magics: []string{arrowfile.Magic, arrowfile.StreamMagic, arrowfile.FeatherMagic}},
		{name: "a JSONL file", extensions: compressible(".jsonl"), look: scanObjects, rows: rowsOfObjects,
			appends: true},
		{name: "a CSV file", extensions: compressible(".csv"), look: scanObjects, rows: rowsOfObjects,
			csv: true, appends: true},
		{name: "a TSV file", extensions: compressible(".tsv"), look: scanObjects, rows: rowsOfObjects,
			csv: true, delimiter: '\t', appends: true},
	}
}

// compressible is the extensions of a format of text.
func compressible(extension string) []string {
	return []string{extension, extension + ".gz", extension + ".zst"}
}

// extensions are those of all formats.
func extensions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range inputFormats {
			for _, e := range f.extensions {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func listExtensions() string { return strings.Join(slices.Collect(extensions()), ", ") }

// formatByName returns the format that the name of a file tells, nil where it tells none.
func formatByName(name string) *inputFormat {
	if name == StandardInput {
		name = ".jsonl"
	}
	for _, f := range inputFormats {
		if slices.ContainsFunc(f.extensions, func(e string) bool { return strings.HasSuffix(name, e) }) {
			return f
		}
	}
	return nil
}

func hasExtension(name string) bool { return formatByName(name) != nil }

// formatOfInput tells the formats apart by name, or by the start of a file with another name.
func formatOfInput(name string, f File) (*inputFormat, error) {
	if format := formatByName(name); format != nil {
		return format, nil
	}
	start := make([]byte, 4096)
	n, _ := f.ReadAt(start, 0)
	start = start[:n]
	var told []string
	for _, format := range inputFormats {
		if len(format.magics) == 0 {
			continue
		}
		if slices.ContainsFunc(format.magics, func(m string) bool { return strings.HasPrefix(string(start), m) }) {
			return format, nil
		}
		told = append(told, format.name)
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(start, []byte(byteOrderMark)))
	if line, _, _ := bytes.Cut(text, []byte("\n")); len(line) > 1 && line[0] == '{' {
		return formatByName(".jsonl"), nil
	}
	what := fmt.Sprintf("neither %s nor JSONL, which begins with an object on a line, nor named %s",
		strings.Join(told, " nor "), listExtensions())
	if len(text) > 0 && (text[0] == '[' || text[0] == '{') {
		what = fmt.Sprintf("it seems to be one JSON document over several lines: write an object on each line; a JSON "+
			"array becomes lines by jq -c '.[]' %s > %s.jsonl", name, strings.TrimSuffix(path.Base(name), ".json"))
	}
	return nil, &FileError{File: name, What: what}
}

// changed is the error for a file that is not what it was when the job started.
func (s *Source) changed(format string, args ...any) error {
	return &FileError{File: s.Name, What: fmt.Sprintf(format, args...) + "; do not change inputs during a job"}
}

// changedRows is changed for a file that has another number of rows now.
func (s *Source) changedRows(now int64) error {
	return s.changed("it had %s when the job started and has %d now", plural.Count(s.Rows, "row"), now)
}

func lookParquet(_ context.Context, s *Source, f File) ([]*node, error) {
	pf, err := parseParquet(s.Name, f, f.Size(), s.mapping, s.partitions...)
	if err != nil {
		return nil, err
	}
	s.Rows, s.texts, s.lacks = pf.file.NumRows(), pf.texts(), pf.lacks
	if s.Digest, err = footerDigest(f); err != nil {
		return nil, &FileError{File: s.Name, What: "cannot read it", Err: err}
	}
	return pf.root.fields, nil
}

func rowsOfParquet(ctx context.Context, in *opened, from, to int64, yield func(*Row) bool) (bool, error) {
	pf, err := parseParquet(in.Name, in.file, in.file.Size(), in.mapping, in.partitions...)
	if err != nil {
		return false, err
	}
	if pf.file.NumRows() != in.Rows {
		return false, in.changedRows(pf.file.NumRows())
	}
	pf.name = in.rowsName()
	l, err := in.schema.place(pf.root)
	if err != nil {
		return false, in.changed("%v", err)
	}
	return pf.rows(ctx, in, pf.groups(), from, to, l, yield)
}
