package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"sync"

	"github.com/quire/quire/internal/visible"
)

// Screen is standard output or standard error. It makes all control characters visible, because names, prompts, ids,
// completions and errors come from files, models and networks. It remembers the first error of a write, so that a
// command whose output was lost does not succeed.
//
// A pipe that nobody reads any more, as in "sample show out | head", ends the process by SIGPIPE without a word, as it
// ends other tools: the Go runtime does so for writes to standard output and standard error.
type Screen struct {
	to    io.Writer
	paint *painter

	mu   sync.Mutex
	text *visible.Writer
	bar  bool // the last line is a progress bar, which the next line replaces
	Err  error
}

func NewScreen(to io.Writer) *Screen {
	paint := &painter{to: to}
	return &Screen{to: to, paint: paint, text: visible.NewWriter(paint)}
}

// painter colours the starts of lines: errors and warnings of standard error, and headings. Control characters of its
// text are made visible before.
type painter struct {
	to     io.Writer
	paints []paint // paints of lines; none leaves them unchanged
	within bool    // a line
}

// paint is the colour of the part of a line that the expression matches.
type paint struct {
	line  *regexp.Regexp
	style string // style of the terminal: see ECMA-48, SGR
}

var (
	OfMessages = []paint{{regexp.MustCompile(`^(error|sample):`), "1;31"}, {regexp.MustCompile(`^warning:`), "1;33"}}
	// styles of help and of show, which indent their texts
	OfHeadings = []paint{{regexp.MustCompile(`^── .*|^[A-Z][^:]*:$`), "1"}}
)

func (p *painter) Write(b []byte) (int, error) {
	if len(p.paints) == 0 {
		return p.to.Write(b)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(b) {
		text := bytes.TrimSuffix(line, []byte("\n"))
		for _, paint := range p.paints {
			if match := paint.line.FindIndex(text); match != nil && !p.within {
				fmt.Fprintf(&out, "\x1b[%sm%s\x1b[0m", paint.style, text[:match[1]])
				line = line[match[1]:]
				break
			}
		}
		out.Write(line)
		p.within = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := p.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// PaintLines has lines coloured on a terminal that can, unless NO_COLOR is set: see no-color.org.
func PaintLines(w io.Writer, paints []paint) {
	if s, ok := w.(*Screen); ok && IsTerminal(w) && os.Getenv("NO_COLOR") == "" &&
		!slices.Contains([]string{"", "dumb"}, os.Getenv("TERM")) {
		s.paint.paints = paints
	}
}

// Write writes b. After an error it writes nothing more, and returns that one.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Err != nil {
		return 0, s.Err
	}
	if s.bar {
		if _, err := io.WriteString(s.to, clearLine); err != nil {
			s.note(err)
			return 0, err
		}
	}
	if _, err := s.text.Write(b); err != nil {
		s.note(err)
		return 0, err
	}
	return len(b), nil
}

// clearLine has a terminal go to the beginning of its line and clear it.
const clearLine = "\r\x1b[2K"

// showsBar sets whether a progress bar is on w's terminal from now on. It is printed again after each text.
func showsBar(w io.Writer, shows bool) {
	if s, ok := w.(*Screen); ok {
		s.mu.Lock()
		s.bar = shows
		s.mu.Unlock()
	}
}

func (s *Screen) note(err error) {
	if s.Err == nil {
		s.Err = err
	}
}

// Failure ends the writing, and returns its first error; stream is its name for people.
func (s *Screen) Failure(stream string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(s.text.Flush())
	if s.Err == nil {
		return nil
	}
	err := s.Err
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("cannot write to %s: %w; some of what was to be printed is lost", stream, err)
}

// terminalOf returns the terminal that w finally writes to, for callers that write their own control characters.
func terminalOf(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.to
	}
	return w
}

// FileOf returns the file that w writes to, if it is one.
func FileOf(w io.Writer) (*os.File, bool) {
	f, ok := terminalOf(w).(*os.File)
	return f, ok
}
