package lines

import (
	"errors"
	"fmt"
	"io"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonvalue"
)

// EachCompletion calls each for the completions that decode finds in each line, after as many lines as are to be
// skipped. The last argument of decode reports whether the line is the first, which is decoded even if it is skipped.
func EachCompletion(in io.ReaderAt, size, skip int64, decode func([]byte, []jsonvalue.Member,
	bool) ([]*completion.Completion, error),
	each func(*completion.Completion) error) error {
	l, err := Open("", io.NewSectionReader(in, 0, size))
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		line, err := l.Next()
		if err == io.EOF {
			return nil
		}
		skipped := skip > 0
		if skip--; skipped && !first && err == nil {
			continue
		}
		var all []jsonvalue.Member
		if err == nil {
			all, err = jsonvalue.ParseRow(line)
		}
		var completions []*completion.Completion
		if err == nil {
			completions, err = decode(line, all, first)
		}
		if first && cutOff(in, size) && !errors.Is(err, completion.ErrNoCompletions) {
			return errors.New("its last line is cut off")
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", l.Number, err)
		}
		if skipped {
			continue
		}
		for _, c := range completions {
			if err := each(c); err != nil {
				return err
			}
		}
	}
}

// cutOff reports whether the last line of a file is incomplete.
func cutOff(in io.ReaderAt, size int64) bool {
	var last [1]byte
	if size == 0 {
		return false
	}
	_, err := in.ReadAt(last[:], size-1)
	return err == nil && last[0] != '\n'
}
