package storage

import (
	"bytes"
	"strings"
	"testing"
)

// Names whose parameters are hidden continue to work without them.
func TestHide(t *testing.T) {
	p := fakeS3(t)
	t.Cleanup(func() { hidden.byBucket = nil })
	name, err := Hide(p.url("out/"))
	if err != nil || name != "s3://bucket/out/" {
		t.Fatal(name, err)
	}
	if again, err := Hide(p.url("in")); err != nil || again != "s3://bucket/in" {
		t.Error(again, err)
	}
	if err := Put(t.Context(), Join(name, "x"), strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	if got := content(t, p.url("out/x")); !bytes.Equal(got, []byte("hello")) {
		t.Errorf("%q", got)
	}
	if files, err := List(t.Context(), name); err != nil || len(files) != 1 ||
		Redact(files[0].Name) != "s3://bucket/out/x" {
		t.Error(files, err)
	}
	if _, err := Hide("s3://bucket/in?region=elsewhere&sig=SECRET"); err == nil ||
		strings.Contains(err.Error(), "SECRET") {
		t.Error(err)
	}
	for _, name := range []string{"a/b?c=d", "hf://o/n", "s3://other/x"} {
		if got, err := Hide(name); got != name || err != nil {
			t.Error(got, err)
		}
	}
}
