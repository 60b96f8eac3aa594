// Package jsonl reads prompts from files with one object per line, and writes and reads parts of completions.
package jsonl

import (
	"bytes"
	"context"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/lines"
)

// Extensions lists the extensions of files with one object per line.
var Extensions = append(lines.Compressible(".jsonl"), lines.Compressible(".ndjson")...)

// Look looks into a file with one object per line.
func Look(ctx context.Context, s *input.Source, f input.File) (*input.Contents, error) {
	return lines.Look(ctx, s, f, func(*lines.Reader) (lines.Rows, error) { return Rows{}, nil })
}

// Begins reports whether the first line of a text starts with a non-empty object.
func Begins(text []byte, _ input.File) bool {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return len(line) > 1 && line[0] == '{'
}

// Rows are the lines of a file that are not blank.
type Rows struct{}

// Start does nothing, because rows start with the file.
func (Rows) Start(*lines.Reader) error { return nil }

// Next returns the next line.
func (Rows) Next(l *lines.Reader) ([]byte, error) { return l.Next() }

// Members splits a line into its keys and values.
func (Rows) Members(line lines.Text) ([]jsonvalue.Member, error) {
	return jsonvalue.ParseRow(line.Bytes)
}

// IDIn returns the id if it precedes the damage.
func (Rows) IDIn(line lines.Text, key string) string { return jsonvalue.FindID(line.Bytes, key) }
