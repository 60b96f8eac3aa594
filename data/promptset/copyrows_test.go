package promptset

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quire/quire/data/promptset/jsonl"
)

// The first rows of a stream are copied byte for byte, and little more is read.
func TestCopyRows(t *testing.T) {
	const text = "\xef\xbb\xbf{\"prompt\":1}\n\n \u00a0\r\n{\"prompt\":2}\r\nnot JSON\n{\"prompt\":4}"
	for n, want := range map[int64]string{
		0: text, 1: "\xef\xbb\xbf{\"prompt\":1}\n", 2: text[:strings.Index(text, "not")],
		3: text[:strings.LastIndex(text, "{")], 4: text, 5: text,
	} {
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			var got strings.Builder
			if err := jsonl.CopyRows(&got, from, n); err != nil || got.String() != want {
				t.Errorf("%d rows: %q (%v), want %q", n, got.String(), err, want)
			}
		}
	}
	endless := io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("read on")))
	if err := jsonl.CopyRows(io.Discard, iotest.OneByteReader(endless), 3); err != nil {
		t.Error(err)
	}
	if err := jsonl.CopyRows(io.Discard, endless, 4); err == nil {
		t.Error("the error of the stream is lost")
	}
}
