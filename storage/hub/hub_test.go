package hub_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/quire/quire/storage/hub"
	"github.com/quire/quire/storage/hub/hubtest"
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
		for _, part := range [][2]int64{{0, 500}, {0, 1}, {123, 45}, {490, 100}, {10, -1}, {500, 3}, {7, 0}} {
			r, err := bucket.NewRangeReader(ctx, key, part[0], part[1], nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			to := part[0] + part[1]
			if part[1] < 0 || to > 500 {
				to = 500
			}
			if err != nil || string(got) != long[part[0]:to] || r.Size() != 500 {
				t.Errorf("%v: %q, size %d, %v", part, got, r.Size(), err)
			}
			r.Close()
		}
	}
	for _, revision := range []string{"@~parquet", "@refs/convert/parquet", "@refs%2Fconvert%2Fparquet"} {
		if got := list(t, bucket, "org/name"+revision+"/"); len(got) != 1 || got[0] != "default/train/0000.parquet" {
			t.Errorf("%s: %q", revision, got)
		}
	}
	// What is read is of one commit, whatever comes after.
	fake.Commit("org/name", "main", map[string]string{"data/train 1.jsonl": "other"})
	if text, err := bucket.ReadAll(ctx, "org/name/data/train 1.jsonl"); err != nil || string(text) != long {
		t.Errorf("%q, %v", text, err)
	}
}

func list(t *testing.T, bucket *blob.Bucket, prefix string) (paths []string) {
	t.Helper()
	for token := blob.FirstPageToken; len(token) > 0; {
		page, next, err := bucket.ListPage(t.Context(), token, 2, &blob.ListOptions{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			_, path, _ := strings.Cut(strings.TrimPrefix(o.Key, "org/"), "/")
			path = strings.TrimPrefix(path, "convert/parquet/") // of a revision with slashes
			paths = append(paths, path)
		}
		token = next
	}
	return paths
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

// What is not there, needs a login or can not be written is told apart.
func TestErrors(t *testing.T) {
	fake := hubtest.New(t)
	fake.Commit("org/name", "main", map[string]string{"a": "a"})
	ctx := context.Background()
	attributes := func(key string) error {
		_, err := hub.OpenBucket().Attributes(ctx, key)
		return err
	}
	for key, want := range map[string]gcerrors.ErrorCode{"org/name/a": gcerrors.OK, "org/name/b": gcerrors.NotFound,
		"org/name": gcerrors.NotFound, "org/other/a": gcerrors.NotFound, "org/name@v1/a": gcerrors.NotFound,
		"name": gcerrors.InvalidArgument} {
		if err := attributes(key); gcerrors.Code(err) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := attributes("org/other/a"); !errors.Is(err, hub.ErrNoDataset) {
		t.Error(err)
	}
	if err := attributes("name"); !strings.Contains(err.Error(), "write hf://datasets/ORG/NAME") {
		t.Error(err)
	}
	if err := hub.OpenBucket().WriteAll(ctx, "org/name/c", nil, nil); gcerrors.Code(err) != gcerrors.Unimplemented {
		t.Error(err)
	}
	if err := hub.OpenBucket().Delete(ctx, "org/name/a"); gcerrors.Code(err) != gcerrors.Unimplemented {
		t.Error(err)
	}
	fake.Token = "secret"
	err := attributes("org/name/a")
	if gcerrors.Code(err) != gcerrors.PermissionDenied || !strings.Contains(err.Error(), "set HF_TOKEN") {
		t.Error(err)
	}
	t.Setenv("HF_TOKEN", "secret")
	if text, err := hub.OpenBucket().ReadAll(ctx, "org/name/a"); err != nil || string(text) != "a" {
		t.Errorf("%q, %v", text, err)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if err := attributes("org/name/a"); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Error(err)
	}
}
