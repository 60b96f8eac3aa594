package jobstate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// inputName is the name of the copy of standard input with a given digest, and inputTemp the name of an incomplete
// copy.
const (
	inputName = "input-%.16s.jsonl"
	inputTemp = "input.tmp"
)

// InputCopy returns the path of the copy of standard input that has this SHA-256, in hex, for the job whose work
// folder is output.
func InputCopy(output, digest string) string {
	return filepath.Join(output, Folder, fmt.Sprintf(inputName, digest))
}

// CopyInput copies all of from into the folder and returns its SHA-256 in hex: see [InputCopy]. If from is empty, it
// makes no copy and returns no digest. Errors of from are returned unchanged.
func (s *State) CopyInput(from io.Reader) (digest string, err error) {
	temp := filepath.Join(s.root, inputTemp)
	f, err := s.fs.Create(temp)
	if err != nil {
		return "", fmt.Errorf("cannot keep standard input: %w", err)
	}
	defer func() {
		if digest == "" {
			err = errors.Join(err, s.fs.Remove(temp))
		}
	}()
	sum, to := sha256.New(), &failing{to: f}
	n, err := io.Copy(io.MultiWriter(sum, to), from)
	if err == nil {
		err, to.err = f.Sync(), nil
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	switch {
	case to.err != nil:
		return "", fmt.Errorf("cannot keep standard input: %w", to.err)
	case err != nil || n == 0:
		return "", err
	}
	whole := hex.EncodeToString(sum.Sum(nil))
	if err = s.fs.Rename(temp, InputCopy(s.out, whole)); err == nil {
		err = s.fs.SyncDir(s.root)
	}
	if err != nil {
		return "", fmt.Errorf("cannot keep standard input: %w", err)
	}
	return whole, nil
}

// DropInputs removes the copies of standard input, except the one with the digest keep.
func (s *State) DropInputs(keep string) error {
	names, err := s.fs.List(s.root)
	if err != nil {
		return fmt.Errorf("cannot look for copies of standard input: %w", err)
	}
	before, after, _ := strings.Cut(inputName, "%.16s")
	for _, name := range names {
		copied := strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
		if copied && name == fmt.Sprintf(inputName, keep) || !copied && name != inputTemp {
			continue
		}
		if err := s.fs.Remove(filepath.Join(s.root, name)); err != nil {
			return fmt.Errorf("cannot remove a copy of standard input: %w", err)
		}
	}
	return nil
}

// failing remembers the error of a writer.
type failing struct {
	to  io.Writer
	err error
}

func (f *failing) Write(b []byte) (int, error) {
	n, err := f.to.Write(b)
	if err != nil {
		f.err = err
	}
	return n, err
}
