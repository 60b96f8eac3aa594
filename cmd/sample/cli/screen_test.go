package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns both ends of a pseudo-terminal: what is written to the second is read from the first.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("this machine has no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// Errors, warnings and headings are coloured on terminals that have colours, unless NO_COLOR is set; texts of files are
// not, and bring no colours of their own.
func TestColours(t *testing.T) {
	const said = "warning: a\nerror: b\nan error: c\n  error: d\nsample: e\nRun:\n── id ──\n\x1b[31mred\n"
	const plain = "warning: a\nerror: b\nan error: c\n  error: d\nsample: e\nRun:\n── id ──\n\\x1b[31mred\n"
	for _, c := range []struct {
		term, noColor string
		paints        []paint
		want          string
	}{
		{"xterm", "", OfMessages, "\x1b[1;33mwarning:\x1b[0m a\n\x1b[1;31merror:\x1b[0m b\nan error: c\n  error: d\n" +
			"\x1b[1;31msample:\x1b[0m e\nRun:\n── id ──\n\\x1b[31mred\n"},
		{"xterm", "", OfHeadings, "warning: a\nerror: b\nan error: c\n  error: d\nsample: e\n\x1b[1mRun:\x1b[0m\n" +
			"\x1b[1m── id ──\x1b[0m\n\\x1b[31mred\n"},
		{"xterm", "1", OfMessages, plain},
		{"dumb", "", OfMessages, plain},
		{"", "", OfMessages, plain},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		master, slave := terminal(t)
		s := NewScreen(slave)
		PaintLines(s, c.paints)
		fmt.Fprint(s, said)
		_ = s.Failure("the terminal")
		slave.Close()
		b, _ := io.ReadAll(master) // to its end, which Linux reports as an error
		if got := strings.ReplaceAll(string(b), "\r\n", "\n"); got != c.want {
			t.Errorf("TERM=%s NO_COLOR=%s: %q, want %q", c.term, c.noColor, got, c.want)
		}
	}
	var file strings.Builder
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	s := NewScreen(&file)
	PaintLines(s, OfMessages)
	fmt.Fprint(s, said)
	_ = s.Failure("the file")
	if file.String() != plain {
		t.Errorf("no terminal: %q", file.String())
	}
}
