// Package hub reads datasets of the Hugging Face hub as a bucket.
//
// The key of a file is ORG/NAME[@REVISION]/PATH. REVISION is a branch, tag or commit, by default main, or one of the
// hub's own, such as refs/convert/parquet, for which ~parquet is short. In other revisions, write slashes as %2F. A
// revision is looked up once, until it is forgotten ([Bucket.Forget]), and all reads get that commit.
//
// Environment: HF_TOKEN for datasets that need a login, HF_ENDPOINT for a different hub, HF_HUB_OFFLINE=1 to use
// none.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gomlx/go-huggingface/hub"
	"golang.org/x/sync/singleflight"

	"github.com/quire/quire/data/storage/object"
)

// ErrNoDataset reports that there is no such dataset, or no such revision of it.
var ErrNoDataset = errors.New("there is no such dataset or revision on the hub")

// hopeless states why a request cannot succeed at any time.
type hopeless string

func (e hopeless) Error() string { return string(e) }

// Status is an unexpected status of the hub.
type Status struct {
	Code int
	Text string
}

// Error states what the hub answered, and what to do.
func (e *Status) Error() string {
	text := fmt.Sprintf("the hub answers %d %s", e.Code, http.StatusText(e.Code))
	if e.Text != "" {
		text += ": " + strings.TrimSuffix(e.Text, ".")
	}
	if e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden {
		text += "; there is no such dataset, or it needs a login: accept its terms on the hub and set HF_TOKEN"
	}
	return text
}

// HTTPStatusCode is Code.
func (e *Status) HTTPStatusCode() int { return e.Code }

// Unwrap returns which kind of thing does not exist.
func (e *Status) Unwrap() error {
	if e.Code == http.StatusNotFound {
		return ErrNoDataset
	}
	return nil
}

// Offline reports whether the environment forbids requests to the hub.
func Offline() bool {
	v := os.Getenv("HF_HUB_OFFLINE")
	return v != "" && v != "0"
}

// Header returns the header of each request: the login, if the environment has one.
func Header() http.Header {
	header := http.Header{}
	if token := os.Getenv("HF_TOKEN"); token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return header
}

// Bucket has all datasets of the hub, read-only. It implements object.Bucket.
type Bucket struct {
	loading  singleflight.Group
	mu       sync.Mutex
	datasets map[string]*dataset // by ORG/NAME[@REVISION]
}

// OpenBucket returns a bucket that has not looked up any revision.
func OpenBucket() *Bucket { return &Bucket{datasets: map[string]*dataset{}} }

// dataset is a dataset at a commit.
type dataset struct {
	commit string
	base   string // prefix of the URLs of its files
	files  []file // in the order of their paths
}

type file struct {
	path string
	size int64
	etag string // of the content: from Git LFS or Git
}

func (d *dataset) find(path string) (file, error) {
	index, ok := slices.BinarySearchFunc(d.files, path,
		func(f file, path string) int { return cmp.Compare(f.path, path) })
	if !ok {
		return file{}, fs.ErrNotExist
	}
	return d.files[index], nil
}

var keyPattern = regexp.MustCompile(`^([^/@]+/[^/@]+)(@(?:refs/[^/]+/[^/]+|[^/]+))?(?:/(.*))?$`)

// split splits a key into ORG/NAME[@REVISION] and PATH, which is "" for the dataset.
func split(key string) (dataset, path string, err error) {
	m := keyPattern.FindStringSubmatch(key)
	if m == nil {
		return "", "", hopeless(fmt.Sprintf("%q names no dataset: write hf://datasets/ORG/NAME[@REVISION]/PATH", key))
	}
	return m[1] + m[2], m[3], nil
}

// Dataset returns ORG/NAME[@REVISION] of a key; "" if it is not a key.
func Dataset(key string) string {
	name, _, _ := split(key)
	return name
}

// Forget makes the next use look up the revision in a key again, because a branch may have moved.
func (b *Bucket) Forget(key string) {
	name, _, err := split(key)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.datasets, name)
}

// Pinned returns a key with the commit in place of its revision, if that was looked up; else the key.
func (b *Bucket) Pinned(key string) string {
	name, _, err := split(key)
	if err != nil {
		return key
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.datasets[name]
	if d == nil || d.commit == "" {
		return key
	}
	id, _, _ := strings.Cut(name, "@")
	return id + "@" + d.commit + strings.TrimPrefix(key, name)
}

// named returns a dataset by ORG/NAME[@REVISION].
func (b *Bucket) named(ctx context.Context, name string) (*dataset, error) {
	b.mu.Lock()
	d := b.datasets[name]
	b.mu.Unlock()
	if d != nil {
		return d, nil
	}
	loaded := b.loading.DoChan(name, func() (any, error) { // go-huggingface has no timeouts
		d, err := load(name)
		if err == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.datasets[name] = d
		}
		return d, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-loaded:
		d, _ := r.Val.(*dataset)
		return d, r.Err
	}
}

// file returns a file by its key.
func (b *Bucket) file(ctx context.Context, key string) (*dataset, file, error) {
	name, path, err := split(key)
	if err != nil {
		return nil, file{}, err
	}
	d, err := b.named(ctx, name)
	if err != nil {
		return nil, file{}, err
	}
	f, err := d.find(path)
	return d, f, err
}

var statusPattern = regexp.MustCompile(`bad status code (\d+)(?:: (.*))?`)

// load queries the hub for the files of a revision.
func load(name string) (*dataset, error) {
	if Offline() {
		return nil, hopeless("HF_HUB_OFFLINE is set: unset it, or give local files")
	}
	id, revision, _ := strings.Cut(name, "@")
	if plain, err := url.PathUnescape(revision); err == nil {
		revision = plain
	}
	switch revision {
	case "":
		revision = "main"
	case "~parquet":
		revision = "refs/convert/parquet"
	}
	temp, err := os.MkdirTemp("", "quire-hub-") // go-huggingface stores what it reads in files
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	repo := hub.New(id).WithType(hub.RepoTypeDataset).WithRevision(url.PathEscape(revision)).WithCacheDir(temp).
		WithAuth(os.Getenv("HF_TOKEN"))
	repo.Verbosity = 0
	const someFile = "x"
	address, err := repo.FileURL(someFile) // the URL contains the commit
	if err != nil {
		if m := statusPattern.FindStringSubmatch(err.Error()); m != nil {
			code, _ := strconv.Atoi(m[1])
			return nil, &Status{Code: code, Text: m[2]}
		}
		return nil, err
	}
	d := &dataset{commit: repo.Info().CommitHash, base: strings.TrimSuffix(address, someFile)}
	for _, s := range repo.Info().Siblings {
		f := file{path: s.Name, size: s.Size, etag: s.BlobID}
		if s.LFS != nil {
			f.size, f.etag = s.LFS.Size, s.LFS.SHA256
		}
		d.files = append(d.files, f)
	}
	slices.SortFunc(d.files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return d, nil
}

// url returns the URL of a file, whatever characters its path has.
func (d *dataset) url(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		elements[i] = url.PathEscape(e)
	}
	return d.base + strings.Join(elements, "/")
}

// coded adds a code to an error.
func coded(err error) error {
	if err == nil {
		return nil
	}
	e := &object.Error{Err: err}
	if status := (*Status)(nil); errors.As(err, &status) {
		e = object.FromStatus(status.Code, err)
	}
	var never hopeless
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNoDataset):
		e.Code = object.NotFound
	case errors.As(err, &never):
		e.Code = object.Invalid
	case errors.Is(err, errors.ErrUnsupported):
		e.Code = object.Unsupported
	}
	return e
}

// Attributes implements object.Bucket.
func (b *Bucket) Attributes(ctx context.Context, key string) (object.Attributes, error) {
	_, f, err := b.file(ctx, key)
	return object.Attributes{Version: object.Version{ETag: f.etag}, Size: f.size}, coded(err)
}

// List implements object.Bucket. A token is the last path of the previous page.
func (b *Bucket) List(ctx context.Context, prefix, token string, limit int) (page []object.Entry, next string,
	err error) {
	name, path, err := split(prefix)
	if err != nil {
		return nil, "", coded(err)
	}
	if !strings.HasPrefix(prefix, name+"/") {
		return nil, "", coded(fmt.Errorf("%w: the hub lists files of one dataset; name it before a pattern, as in "+
			"hf://datasets/ORG/NAME/*.parquet", errors.ErrUnsupported))
	}
	d, err := b.named(ctx, name)
	if err != nil {
		return nil, "", coded(err)
	}
	for _, f := range d.files {
		if !strings.HasPrefix(f.path, path) || f.path <= token {
			continue
		}
		if len(page) == limit {
			return page, strings.TrimPrefix(page[limit-1].Key, name+"/"), nil
		}
		page = append(page, object.Entry{Key: name + "/" + f.path, Size: f.size})
	}
	return page, "", nil
}

// errReadOnly is the error of the methods that write.
var errReadOnly = coded(fmt.Errorf("%w: datasets of the hub can only be read", errors.ErrUnsupported))

// Create implements object.Bucket.
func (b *Bucket) Create(context.Context, string, io.Reader, map[string]string) error {
	return errReadOnly
}

// Delete implements object.Bucket.
func (b *Bucket) Delete(context.Context, string) error { return errReadOnly }
