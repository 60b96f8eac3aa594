package storage

import (
	"strings"
	"testing"
)

// FuzzNames takes any name and any parameters: what is shown of a name has none of the parameters, and a name that is
// written is parsed back.
func FuzzNames(f *testing.F) {
	for _, name := range []string{
		"s3://bucket/key", "gs://b", "azblob://c/a/../b?x=y", "file:///a b", "file://a", "mem:///", "a/b?c=d",
		"s3://user:pw@bucket/key", "://", "https://u:p@h/x?token=abc",
	} {
		f.Add(name, "endpoint=http://127.0.0.1:1&use_path_style=true")
	}
	f.Fuzz(func(t *testing.T, name, query string) {
		Path(name)
		Scrub(name)
		Redact(name)
		if l, err := parse(name); err == nil && l.scheme != "" {
			again, err := parse(l.withKey(strings.ReplaceAll(l.key, "?", "")).String())
			if err != nil || again.scheme != l.scheme || again.bucket != l.bucket {
				t.Fatalf("%q is %+v, and that %+v, %v", name, l, again, err)
			}
		}
		const secret = "aVerySecretWord"
		for _, at := range []string{"s3://bucket/" + strings.ReplaceAll(name, "?", "") + "?key=" + secret,
			"https://user:" + secret + "@host/x"} {
			if shown := Redact(at); strings.Contains(shown, secret) {
				t.Fatalf("%q is shown as %q", at, shown)
			}
		}
		if text := "cannot read s3://bucket/key?key=" + secret + " now"; strings.Contains(Scrub(text), secret) {
			t.Fatalf("%q is shown as %q", text, Scrub(text))
		}
		if l, err := parse("s3://bucket/key?a=" + strings.ReplaceAll(query, "?", "")); err == nil && l.query == "" {
			t.Fatalf("the parameters %q are taken as a part of the key: %+v", query, l)
		}
	})
}
