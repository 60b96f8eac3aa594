package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/storage/object"
)

// Objects are found by the same names and patterns, in the same order, as files of the same paths.
func TestFindsAsTheFileSystemDoes(t *testing.T) {
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		dir, err := os.MkdirTemp("", "list")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		remote := fmt.Sprintf("mem://list%d", round)
		ctx := context.Background()
		bucket, err := location{scheme: "mem", bucket: fmt.Sprintf("list%d", round)}.open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range rapid.SliceOfN(rapid.StringMatching(`[ab.]{1,2}(/[ab.]{1,2}){0,2}`), 1, 8).Draw(t, "keys") {
			if path.Clean("/"+key) != "/"+key {
				continue
			}
			file := filepath.Join(dir, key)
			if os.MkdirAll(filepath.Dir(file), 0o755) != nil || os.WriteFile(file, []byte(key), 0o600) != nil {
				continue // a file and a folder cannot have one name here
			}
			bucket.(*object.Memory).Set(key, []byte(key), "")
		}
		rel := func(names []string, root string) (out []string) {
			for _, n := range names {
				out = append(out, strings.TrimPrefix(n, root+"/"))
			}
			return out
		}
		pattern := rapid.StringMatching(`[ab*?]{1,2}(/([ab*?]{1,2}|\[a-b\]))?`).Draw(t, "pattern")
		want, wantErr := Glob(ctx, dir+"/"+pattern)
		got, gotErr := Glob(ctx, remote+"/"+pattern)
		// The file system also finds its "." and "..".
		if path.Clean(pattern) == pattern && (wantErr == nil) == (gotErr == nil) &&
			!reflect.DeepEqual(rel(got, remote), rel(want, dir)) {
			t.Fatalf("%q: %q, want %q", pattern, rel(got, remote), rel(want, dir))
		}
		for _, name := range append(rel(want, dir), "a", "b", "a/b", "") {
			if path.Clean("/"+name) != "/"+name {
				continue
			}
			w, wErr := Stat(ctx, filepath.Join(dir, name))
			g, gErr := Stat(ctx, remote+"/"+name)
			notFound := errors.Is(gErr, fs.ErrNotExist)
			if name == "" && notFound {
				continue // an empty bucket is nothing
			}
			if w.Folder != g.Folder || w.Size != g.Size || (wErr == nil) != (gErr == nil) {
				t.Fatalf("%q: %+v %v, want %+v %v", name, g, gErr, w, wErr)
			}
			if !w.Folder || wErr != nil {
				continue
			}
			wl, wErr := List(ctx, filepath.Join(dir, name))
			gl, gErr := List(ctx, remote+"/"+name)
			if wErr != nil || gErr != nil || len(wl) != len(gl) {
				t.Fatalf("%q: %v %v, want %v %v", name, gl, gErr, wl, wErr)
			}
			for i := range wl {
				if strings.TrimPrefix(wl[i].Name, dir) != strings.TrimPrefix(gl[i].Name, remote) ||
					wl[i].Size != gl[i].Size {
					t.Fatalf("%q: number %d is %+v, want %+v", name, i, gl[i], wl[i])
				}
			}
		}
	})
}

// More objects than a page of answers holds are all found.
func TestListsManyPages(t *testing.T) {
	if testing.Short() {
		t.Skip("puts thousands of objects; make test-slow runs it")
	}
	providers(t, func(t *testing.T, p *provider) {
		const files = listPage + 150
		for i := range files {
			p.raw(t, fmt.Sprintf("many/%05d.txt", i), nil)
		}
		p.raw(t, "many/folder/", nil)
		found, err := List(t.Context(), p.url("many"))
		if err != nil || len(found) != files || Path(found[files-1].Name) != fmt.Sprintf("many/%05d.txt", files-1) {
			t.Fatal(len(found), err)
		}
		names, err := Glob(t.Context(), p.url("many/0000[0-4].txt"))
		if err != nil || len(names) != 5 {
			t.Fatal(names, err)
		}
		if f, err := Open(t.Context(), names[4]); err != nil { // names found can be opened
			t.Fatal(err)
		} else {
			f.Close()
		}
	})
}

func TestNames(t *testing.T) {
	for name, want := range map[string]location{
		"a/b?c=d":                {key: "a/b?c=d"},
		"file:///a/b":            {key: "/a/b"},
		"s3://b/k":               {scheme: "s3", bucket: "b", key: "k"},
		"s3://b":                 {scheme: "s3", bucket: "b"},
		"gs://b/a b/%20?x":       {scheme: "gs", bucket: "b", key: "a b/%20?x"},
		"s3://b/p-?.parquet":     {scheme: "s3", bucket: "b", key: "p-?.parquet"},
		"s3://b/p-?.x?region=eu": {scheme: "s3", bucket: "b", key: "p-?.x", query: "region=eu"},
		"s3://b/k?endpoint=http://127.0.0.1:9/x&use_path_style=true": {scheme: "s3", bucket: "b", key: "k",
			query: "endpoint=http://127.0.0.1:9/x&use_path_style=true"},
	} {
		got, err := parse(name)
		if err != nil || got != want {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if want.scheme != "" && want.key != "" && got.String() != name {
			t.Errorf("%s becomes %s", name, got)
		}
	}
	for _, bad := range []string{"s3:///key", "s3://user:pass@b/k", "file://x", "hf://org/name"} {
		if _, err := Open(t.Context(), bad); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if got := Join("s3://b/out/?region=eu", "part-00000.parquet"); got != "s3://b/out/part-00000.parquet?region=eu" {
		t.Error(got)
	}
	if got := Join("s3://b?region=eu", "x"); got != "s3://b/x?region=eu" {
		t.Error(got)
	}
	if got := Join("a/b", "x"); got != filepath.Join("a", "b", "x") {
		t.Error(got)
	}
}

// What is shown and logged has no credentials in it.
func TestRedact(t *testing.T) {
	for name, want := range map[string]string{
		"a/b":                                         "a/b",
		"hf://org/name":                               "hf://org/name",
		"s3://b/k?endpoint=http://u:SECRET@h/":        "s3://b/k",
		"nats://user:SECRET@host:4222":                "nats://host:4222",
		"https://x.example/p?sig=SECRET":              "https://x.example/p",
		"https://user:SEC%RET@x.example/p?sig=SECRET": "https://x.example/p",
		"redis://:SECRET@h":                           "redis://h",
	} {
		if got := Redact(name); got != want {
			t.Errorf("%s is shown as %s", name, got)
		}
	}
	for _, text := range []string{
		`Get "https://a.blob.example/c?sv=2020&sig=SECRET": dial tcp`,
		"X-Amz-Security-Token: SECRET",
		"AWS_SECRET_ACCESS_KEY=SECRET is wrong",
		"Authorization: Bearer SECRET, and more",
		"nats://u:SECRET@h:1 refused",
		`{"access_token":"x"} token=SECRET`,
		"https://h/p?X-Amz-Signature=SECRET&X-Amz-Credential=SECRET",
	} {
		if got := Scrub(text); strings.Contains(got, "SECRET") && !strings.Contains(got, "SECRET_ACCESS") ||
			strings.Contains(got, "=SECRET") {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	if text := "page 3 of 4: tokens per second: 17; token id 5"; Scrub(text) != text {
		t.Errorf("%s became %s", text, Scrub(text))
	}
}

// No error of a provider that is asked with credentials shows them.
func TestErrorsShowNoSecrets(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		for _, fault := range []string{"403", "404"} {
			p.set(nil)
			p.raw(t, "x", noise(10))
			f, openErr := Open(t.Context(), p.url("x"))
			p.set(func(r *http.Request) string { return fault })
			_, err := f.ReadAt(make([]byte, 1), 0)
			_, listErr := List(t.Context(), p.url("d"))
			for _, err := range []error{openErr, err, listErr} {
				if err == nil {
					continue
				}
				text := err.Error()
				for _, secret := range []string{"QUIRESECRETKEY", "UVVJUkVTRUNSRVRLRVk", "QUIRESECRET", "Signature=",
					"endpoint="} {
					if strings.Contains(text, secret) {
						t.Errorf("%s: %s", fault, text)
					}
				}
			}
		}
	})
}
