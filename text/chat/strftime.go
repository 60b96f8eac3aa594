package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftime formats t as Python's strftime does in the C locale.
func strftime(t time.Time, format string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		pad := true
		if format[i] == '-' && i+1 < len(format) { // glibc: no padding
			pad = false
			i++
		}
		text, ok := strftimeField(t, format[i])
		if !ok {
			return "", fmt.Errorf("strftime_now: the directive %%%c is not supported", format[i])
		}
		if !pad {
			if n, err := strconv.Atoi(text); err == nil {
				text = strconv.Itoa(n)
			}
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

func strftimeField(t time.Time, directive byte) (string, bool) {
	layouts := map[byte]string{
		'd': "02", 'm': "01", 'y': "06", 'Y': "2006", 'b': "Jan", 'h': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
		'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'e': "_2", 'F': "2006-01-02", 'T': "15:04:05",
		'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006",
	}
	if layout, ok := layouts[directive]; ok {
		return t.Format(layout), true
	}
	switch directive {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'z', 'Z': // Python returns nothing for a time without a zone
		return "", true
	}
	return "", false
}
