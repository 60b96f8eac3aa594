package storage

import (
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	for name, want := range map[string]string{
		"a/b": "a/b", "/a": "/a", "": "", "./foo://x": "./foo://x", "a b://c": "a b://c",
		"file:///a/b c%20": "/a/b c%20", "FILE:///a": "/a",
		"file://localhost/a": "/a", "s3://b/k?region=eu": "s3://b/k?region=eu", "gs://b": "gs://b",
		"azblob://c/k":          "azblob://c/k",
		"hf://datasets/o/n@v/a": "hf://datasets/o/n@v/a",
	} {
		if got, err := Resolve(name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		local, err := ResolveLocal(name)
		if IsRemote(name) != (err != nil) || err == nil && local != want {
			t.Errorf("%s on this machine: %q, %v", name, local, err)
		}
	}
	for name, problem := range map[string]string{
		"hf://org/n": "of the hub only datasets are files here; write hf://datasets/ORG/NAME",
		"foo://x":    "the scheme foo:// is unknown; give a path, file:///PATH, s3://",
		"http://h/x": "the scheme http:// is unknown", "S3://b/k": "S3:// is unknown",
		"file://a/b": "a file URL is file:///absolute/path", "file://": "a file URL is",
	} {
		if _, err := Resolve(name); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ResolveLocal(name); err == nil {
			t.Errorf("%s is taken for a local path", name)
		}
		if _, err := Open(t.Context(), name); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("opening %s: %v", name, err)
		}
	}
}
