package jobflags

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
)

// openFile is the name of a file that this process has open.
var openFile = regexp.MustCompile(`^/(?:dev/(?:(stdin)|fd/(\d+))|proc/self/fd/(\d+))$`)

// takePipe settles inputs that other names stand for: of a file that is open here, as /dev/stdin is, the name that
// others know it by; and of a pipe standard input, since its rows come once and in order.
func (o *Options) takePipe() error {
	for i, name := range o.Spec.Inputs {
		info, err := os.Stat(name)
		if err != nil || info.IsDir() {
			continue // the inputs are looked for elsewhere
		}
		open := openFile.FindStringSubmatch(name)
		if info.Mode().IsRegular() {
			if real, err := filepath.EvalSymlinks(name); open != nil && err == nil {
				o.Spec.Inputs[i] = real
			}
			if open == nil || o.Spec.Inputs[i] != name {
				continue
			}
		}
		if len(o.Spec.Inputs) > 1 {
			continue // refused when it is read
		}
		o.Spec.Inputs[i] = spec.Standard
		switch {
		case open == nil:
			if o.piped, err = os.Open(name); err != nil {
				return &cli.PlaceError{Name: name, Err: err}
			}
		case open[1] == "":
			number, err := strconv.Atoi(open[2] + open[3])
			if err != nil {
				return &cli.PlaceError{Name: name, Err: err}
			}
			if number != 0 {
				o.piped = os.NewFile(uintptr(number), name)
			}
		}
	}
	return nil
}

// input is what --input - reads.
func (o *Options) input(stdin io.Reader) io.Reader {
	if o.piped != nil {
		return o.piped
	}
	if len(o.Prompts) == 0 {
		return stdin
	}
	var rows bytes.Buffer
	for _, prompt := range o.Prompts {
		_ = json.NewEncoder(&rows).Encode(map[string]string{"prompt": prompt}) // texts have no errors
	}
	return &rows
}

// endable gives what stdin has. Where that is a file, the reader can be closed.
func endable(stdin io.Reader) io.Reader {
	if f, ok := stdin.(*os.File); ok {
		return endableFile{f}
	}
	return stdin
}

// endableFile is a file that the rest of the process may continue to have open.
type endableFile struct{ *os.File }

// Close replaces the file with an empty one: a process that writes into the former pipe gets SIGPIPE, and no other file
// gets its number.
func (f endableFile) Close() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup2(int(null.Fd()), int(f.Fd()))
}
