package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// endable gives what stdin has. Where that is a file, the reader can be closed.
func endable(stdin io.Reader) io.Reader {
	if f, ok := stdin.(*os.File); ok {
		return endableFile{f}
	}
	return stdin
}

// endableFile is a file that the rest of the process may go on to have open.
type endableFile struct{ *os.File }

// Close takes the place of the file by one without content: whoever writes into the pipe that it was gets SIGPIPE, and
// no other file gets its number.
func (f endableFile) Close() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup2(int(null.Fd()), int(f.Fd()))
}
