package visible

import (
	"strconv"
	"unicode/utf8"
)

// most is the length of the longest text that [Quoted] and [Cut] show, in bytes.
const most = 200

// Quoted returns s in quotes, truncated if it is long: for ids and other values of rows, which may have any length,
// in messages.
func Quoted(s string) string {
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return strconv.Quote(start(s)) + "..."
}

// Cut is Quoted without quotes.
func Cut(s string) string {
	if len(s) <= most {
		return s
	}
	return start(s) + "..."
}

// start returns the start of a long text, without a partial character at its end.
func start(s string) string {
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
