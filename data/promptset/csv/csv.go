// Package csv reads prompts from CSV files.
package csv

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/quire/quire/data/promptset/lines"
)

// place is the state of the parser within a record.
type place int8

const (
	atField    place = iota // at the start of a field
	inPlain                 // in a field without quotes
	inQuotes                // in a field with quotes
	afterQuote              // after a quote in a quoted field, which ends it unless another quote follows
)

// delimiter is a delimiter of fields.
type delimiter struct {
	char byte
	name string // plural name
}

var delimiters = []delimiter{{',', "commas"}, {';', "semicolons"}, {'\t', "tabs"}, {'|', "vertical bars"}}

// delimiterOf returns the delimiter of a text: the comma if the first non-empty line has one outside quotes, else the
// delimiter that this line has most often.
func delimiterOf(text []byte) byte {
	counts, quoted := map[byte]int{}, false
	for _, b := range bytes.TrimLeft(text, "\r\n") {
		if quoted = quoted != (b == '"'); isLineEnd(b) && !quoted {
			break
		} else if !quoted {
			counts[b]++
		}
	}
	most := delimiters[0].char
	for _, d := range delimiters {
		if counts[','] == 0 && counts[d.char] > counts[most] {
			most = d.char
		}
	}
	return most
}

// isLineEnd reports whether a byte is a line end, or one of the two bytes of one.
func isLineEnd(b byte) bool { return b == '\n' || b == '\r' }

// step returns the state after the byte b, which does not end a record.
func (p place) step(b, delimiter byte) place {
	switch {
	case p == inQuotes && b == '"':
		return afterQuote
	case p == inQuotes:
		return inQuotes
	case b == '"' && (p == atField || p == afterQuote):
		return inQuotes
	case b == delimiter:
		return atField
	}
	return inPlain
}

// nextRecord returns the next record that is not an empty line, without its line end, as Next does for lines.
func nextRecord(l *lines.Reader, delimiter byte) ([]byte, error) {
	for {
		tooLong, err := addRecord(l, delimiter)
		switch {
		case err != nil:
			return nil, err
		case tooLong:
			return nil, lines.ErrTooLong
		case len(l.Line) > 0:
			return l.Line, nil
		}
	}
}

// addRecord makes the next record, which may be an empty line, the current one. At the end of the file the error is
// io.EOF, unless there is a record without an end.
func addRecord(l *lines.Reader, delimiter byte) (tooLong bool, err error) {
	l.Line = l.Line[:0]
	l.First = l.Number + 1
	place, newLine, last := atField, true, byte(0)
	for {
		if _, err := l.Buf.Peek(1); err != nil {
			if err == io.EOF && l.Number >= l.First {
				err = nil
			}
			return tooLong, err
		}
		piece, _ := l.Buf.Peek(l.Buf.Buffered())
		end := -1 // end of the record within the piece
		for i, b := range piece {
			if second := b == '\n' && last == '\r'; newLine && !second { // second byte of a line end
				l.Number++
				newLine = false
			}
			last = b
			if isLineEnd(b) {
				if newLine = true; place != inQuotes {
					end = i
					break
				}
			}
			place = place.step(b, delimiter)
		}
		text := piece
		if end >= 0 {
			text = piece[:end]
		}
		if len(l.Line)+len(text) > lines.MaxLine {
			tooLong, l.Line = true, l.Line[:0]
		}
		l.Line = append(l.Line, text...)
		if end < 0 {
			l.Skip(len(piece))
			continue
		}
		l.Skip(end + 1)
		if next, _ := l.Buf.Peek(1); last == '\r' && string(next) == "\n" {
			l.Skip(1)
		}
		return tooLong, nil
	}
}

// linesIn counts the line ends in a text.
func linesIn(text string) int64 {
	return int64(strings.Count(text, "\n") + strings.Count(text, "\r") - strings.Count(text, "\r\n"))
}

// field is a field of a record.
type field struct {
	text   string
	quoted bool
}

// splitRecord splits a record into its fields. first and last are the numbers of its lines.
func splitRecord(record []byte, delimiter byte, first, last int64) (fields []field, err error) {
	text := string(record)
	for offset := 0; ; offset++ { // after a delimiter
		if !strings.HasPrefix(text[offset:], `"`) {
			end := strings.IndexByte(text[offset:], delimiter)
			if end < 0 {
				end = len(text) - offset
			}
			f := field{text: text[offset : offset+end]}
			offset += end
			if strings.Contains(f.text, `"`) {
				return nil, fmt.Errorf("field %d has a quote within: put the whole field in quotes and double those "+
					"in it", len(fields)+1)
			}
			fields = append(fields, f)
		} else {
			var b strings.Builder
			for offset++; ; offset += 2 {
				end := strings.IndexByte(text[offset:], '"')
				if end < 0 {
					return nil, fmt.Errorf("the quotes around field %d, which begin on line %d, do not end by line "+
						"%d: end them, or double the quotes in the field", len(fields)+1,
						first+linesIn(text[:offset]), last)
				}
				b.WriteString(text[offset : offset+end])
				if offset += end; !strings.HasPrefix(text[offset:], `""`) {
					break
				}
				b.WriteByte('"')
			}
			if offset++; offset < len(text) && text[offset] != delimiter {
				return nil, fmt.Errorf("field %d has text after its closing quote: double the quotes in the field",
					len(fields)+1)
			}
			fields = append(fields, field{b.String(), true})
		}
		if offset == len(text) {
			return fields, nil
		}
	}
}
