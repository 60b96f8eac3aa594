package queues

import (
	"bytes"
	"testing"
)

// On a terminal the lines are replaced, and cut to its size.
func TestLiveView(t *testing.T) {
	var screen bytes.Buffer
	l := &liveView{terminal: &screen, size: func() (int, int) { return 8, 5 }}
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"one", "2345678901"}, "\r\x1b[Jone\n2345678\n"},
		{[]string{"a\x1bb"}, "\x1b[2A\r\x1b[Ja\\x1bb\n"},
		{[]string{"a", "b", "c", "d"}, "\x1b[1A\r\x1b[Ja\nb\n2 more\n"},
	} {
		screen.Reset()
		if err := l.draw(c.lines); err != nil || screen.String() != c.want {
			t.Errorf("%q: %q, want %q (%v)", c.lines, screen.String(), c.want, err)
		}
	}
}
