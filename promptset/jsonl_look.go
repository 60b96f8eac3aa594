package promptset

import (
	"bytes"
	"context"
)

// LookJSONL reads a file of an object on each line.
func LookJSONL(ctx context.Context, s *Source, f File) (*Contents, error) {
	return LookAtObjects(ctx, s, f, func(*LineReader) (Rows, error) { return JSONLRows{}, nil })
}

// BeginsAsJSONL says whether the first line of a text begins with an object that goes on.
func BeginsAsJSONL(text []byte) bool {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return len(line) > 1 && line[0] == '{'
}

// JSONLRows are the lines of a file that are not blank.
type JSONLRows struct{}

// Start does nothing: rows begin with the file.
func (JSONLRows) Start(*LineReader) error { return nil }

// Next returns the next line.
func (JSONLRows) Next(l *LineReader) ([]byte, error) { return l.Next() }

// Members splits a line into its keys and values.
func (JSONLRows) Members(line Text) ([]member, error) { return members(line.Bytes) }

// IDIn returns the id in a line that is damaged behind it.
func (JSONLRows) IDIn(line Text, key string) string { return idIn(line.Bytes, key) }
