// Package pyjson has the JSON of values that Python has and JSON lacks: it converts what Python's json module writes in
// models' small files, and marks decimals.
package pyjson

import "bytes"

// DecimalMark ends the number of a decimal, whose digits templates print as they are: an exponent that nobody else
// writes.
const DecimalMark = "E+000"

var (
	mark = []byte("\xef\xbb\xbf") // a byte order mark, which Windows' editors write
	// words are the numbers that JSON lacks, the longest first.
	words = [][]byte{[]byte("-Infinity"), []byte("Infinity"), []byte("NaN")}
)

// Standard returns data without a byte order mark, and with NaN and infinities in the form of transformers,
// {"__float__": "NaN"}. So code that reads such a value as a number gets an error, and code that does not need it
// continues.
func Standard(data []byte) []byte {
	data = bytes.TrimPrefix(data, mark)
	if !bytes.Contains(data, words[1]) && !bytes.Contains(data, words[2]) {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	for i := 0; i < len(data); {
		if data[i] == '"' {
			end := i + 1
			for end < len(data) && data[end] != '"' {
				if data[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(data))
			out = append(out, data[i:end]...)
			i = end
			continue
		}
		n := 0
		for _, word := range words {
			if n == 0 && bytes.HasPrefix(data[i:], word) {
				out = append(append(append(out, `{"__float__": "`...), word...), `"}`...)
				n = len(word)
			}
		}
		if n == 0 {
			out = append(out, data[i])
			n = 1
		}
		i += n
	}
	return out
}
