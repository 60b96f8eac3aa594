package hub_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quire/quire/data/storage/hub"
	"github.com/quire/quire/data/storage/hub/hubtest"
	"github.com/quire/quire/data/storage/object"
)

// Files are listed in pages and read in parts, by branches, the hub's own revisions and commits.
func TestBucket(t *testing.T) {
	fake := hubtest.New(t)
	long := strings.Repeat("0123456789", 50)
	commit := fake.Commit("org/name", "main", map[string]string{"data/train 1.jsonl": long, "data/a": "a", "b": ""})
	fake.Commit("org/name", "refs/convert/parquet", map[string]string{"default/train/0000.parquet": "PAR1"})
	bucket, ctx := hub.OpenBucket(), t.Context()
	for _, revision := range []string{"", "@main", "@" + commit} {
		want := []string{"b", "data/a", "data/train 1.jsonl"}
		if got := list(t, bucket, "org/name"+revision+"/"); strings.Join(got, ",") != strings.Join(want, ",") {
			t.Errorf("%s: %q", revision, got)
		}
		if got := list(t, bucket, "org/name"+revision+"/data/t"); len(got) != 1 {
			t.Errorf("%s: %q", revision, got)
		}
		key := "org/name" + revision + "/data/train 1.jsonl"
		attributes, err := bucket.Attributes(ctx, key)
		if err != nil || attributes.Size != 500 || len(attributes.ETag) != 64 {
			t.Fatal(attributes, err)
		}
		for _, part := range [][2]int64{{0, 500}, {0, 1}, {123, 45}, {490, 10}} {
			got, c := read(t, bucket, key, part[0], part[1])
			if got != long[part[0]:part[0]+part[1]] || c.Size != 500 || c.Offset != part[0] ||
				c.ETag != attributes.ETag {
				t.Errorf("%v: %q of %+v", part, got, c)
			}
		}
	}
	for _, revision := range []string{"@~parquet", "@refs/convert/parquet", "@refs%2Fconvert%2Fparquet"} {
		if got := list(t, bucket, "org/name"+revision+"/"); len(got) != 1 || got[0] != "default/train/0000.parquet" {
			t.Errorf("%s: %q", revision, got)
		}
	}
	// Reads are from one commit, whatever comes after.
	fake.Commit("org/name", "main", map[string]string{"data/train 1.jsonl": "other"})
	if text, _ := read(t, bucket, "org/name/data/train 1.jsonl", 0, 500); text != long {
		t.Errorf("%q", text)
	}
}

func read(t *testing.T, bucket *hub.Bucket, key string, offset, length int64) (string, *object.Content) {
	t.Helper()
	c, err := bucket.Read(t.Context(), key, object.Version{}, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Body.Close()
	text, err := io.ReadAll(c.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), c
}

func list(t *testing.T, bucket *hub.Bucket, prefix string) (paths []string) {
	t.Helper()
	for token := ""; ; {
		page, next, err := bucket.List(t.Context(), prefix, token, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			_, path, _ := strings.Cut(strings.TrimPrefix(o.Key, "org/"), "/")
			path = strings.TrimPrefix(path, "convert/parquet/") // of a revision with slashes
			paths = append(paths, path)
		}
		if token = next; token == "" {
			return paths
		}
	}
}

// A hub that does not answer is waited for as long as the caller wants.
func TestSilentHub(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	t.Setenv("HF_ENDPOINT", silent.URL)
	t.Setenv("HF_HUB_OFFLINE", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hub.OpenBucket().Attributes(ctx, "org/name/a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Missing files, files that need a login, and files that cannot be written are distinguished.
func TestErrors(t *testing.T) {
	fake := hubtest.New(t)
	fake.Commit("org/name", "main", map[string]string{"a": "a"})
	ctx := context.Background()
	attributes := func(key string) error {
		_, err := hub.OpenBucket().Attributes(ctx, key)
		return err
	}
	for key, want := range map[string]object.Code{"org/name/b": object.NotFound,
		"org/name": object.NotFound, "org/other/a": object.NotFound, "org/name@v1/a": object.NotFound,
		"name": object.Invalid} {
		if err := attributes(key); object.CodeOf(err) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := attributes("org/name/a"); err != nil {
		t.Error(err)
	}
	if err := attributes("org/other/a"); !errors.Is(err, hub.ErrNoDataset) {
		t.Error(err)
	}
	if err := attributes("name"); !strings.Contains(err.Error(), "write hf://datasets/ORG/NAME") {
		t.Error(err)
	}
	if err := hub.OpenBucket().Create(ctx, "org/name/c", nil, nil); object.CodeOf(err) != object.Unsupported {
		t.Error(err)
	}
	if err := hub.OpenBucket().Delete(ctx, "org/name/a"); object.CodeOf(err) != object.Unsupported {
		t.Error(err)
	}
	fake.Token = "secret"
	err := attributes("org/name/a")
	if object.CodeOf(err) != object.Denied || !strings.Contains(err.Error(), "set HF_TOKEN") {
		t.Error(err)
	}
	t.Setenv("HF_TOKEN", "secret")
	if text, _ := read(t, hub.OpenBucket(), "org/name/a", 0, 1); text != "a" {
		t.Errorf("%q", text)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if err := attributes("org/name/a"); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Error(err)
	}
}
