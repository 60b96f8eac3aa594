// Package hub reads datasets of the Hugging Face hub as a bucket of package blob of Go CDK.
//
// The key of a file is ORG/NAME[@REVISION]/PATH. REVISION is a branch, tag or commit, main without one, or one of the
// hub's own, such as refs/convert/parquet, for which ~parquet is short. Slashes of others are written %2F. A revision
// is looked up once, until it is forgotten ([Forget]), and what is read is of that commit.
//
// Environment: HF_TOKEN for datasets that need a login, HF_ENDPOINT for another hub, HF_HUB_OFFLINE=1 for none.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/singleflight"
)

// ErrNoDataset says that there is no dataset, or no such revision of one.
var ErrNoDataset = errors.New("there is no such dataset or revision on the hub")

// hopeless is why what was asked for can not be had at any time.
type hopeless string

func (e hopeless) Error() string { return string(e) }

// Status is an answer of the hub that has not what was asked for.
type Status struct {
	Code int
	Text string
}

// Error says what the hub answered, and what to do.
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

// Unwrap tells what is not there.
func (e *Status) Unwrap() error {
	if e.Code == http.StatusNotFound {
		return ErrNoDataset
	}
	return nil
}

// Offline says that the environment forbids to ask the hub.
func Offline() bool {
	v := os.Getenv("HF_HUB_OFFLINE")
	return v != "" && v != "0"
}

// Header comes with each request: the login, if the environment has one.
func Header() http.Header {
	header := http.Header{}
	if token := os.Getenv("HF_TOKEN"); token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return header
}

// OpenBucket returns all datasets of the hub, to be read.
func OpenBucket() *blob.Bucket { return blob.NewBucket(&bucket{datasets: map[string]*dataset{}}) }

type bucket struct {
	loading  singleflight.Group
	mu       sync.Mutex
	datasets map[string]*dataset // by ORG/NAME[@REVISION]
}

// dataset is a commit of one.
type dataset struct {
	commit string
	base   string // of the URLs of its files
	files  []file // in order of their paths
}

type file struct {
	path string
	size int64
	etag string // of its content: by Git LFS or Git
}

func (d *dataset) find(path string) (file, error) {
	at, ok := slices.BinarySearchFunc(d.files, path, func(f file, path string) int { return cmp.Compare(f.path, path) })
	if !ok {
		return file{}, fs.ErrNotExist
	}
	return d.files[at], nil
}

var keyPattern = regexp.MustCompile(`^([^/@]+/[^/@]+)(@(?:refs/[^/]+/[^/]+|[^/]+))?(?:/(.*))?$`)

// split takes a key apart: ORG/NAME[@REVISION] and PATH, which is "" for the dataset.
func split(key string) (dataset, path string, err error) {
	m := keyPattern.FindStringSubmatch(key)
	if m == nil {
		return "", "", hopeless(fmt.Sprintf("%q names no dataset: write hf://datasets/ORG/NAME[@REVISION]/PATH", key))
	}
	return m[1] + m[2], m[3], nil
}

// Dataset returns ORG/NAME[@REVISION] of a key; "" is that of what is no key.
func Dataset(key string) string {
	name, _, _ := split(key)
	return name
}

// Forget has the revision in a key of a bucket of [OpenBucket] looked up again: a branch may have moved.
func Forget(of *blob.Bucket, key string) {
	var b *bucket
	name, _, err := split(key)
	if err != nil || !of.As(&b) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.datasets, name)
}

// Pinned returns a key of a bucket of [OpenBucket] with the commit for its revision, if that was looked up; else the
// key.
func Pinned(of *blob.Bucket, key string) string {
	var b *bucket
	name, _, err := split(key)
	if err != nil || !of.As(&b) {
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
func (b *bucket) named(ctx context.Context, name string) (*dataset, error) {
	b.mu.Lock()
	d := b.datasets[name]
	b.mu.Unlock()
	if d != nil {
		return d, nil
	}
	loaded := b.loading.DoChan(name, func() (any, error) { // go-huggingface knows no end of waiting
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
func (b *bucket) file(ctx context.Context, key string) (*dataset, file, error) {
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

// load asks the hub for the files of a revision.
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
	temp, err := os.MkdirTemp("", "quire-hub-") // go-huggingface keeps what it reads in files
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	repo := hub.New(id).WithType(hub.RepoTypeDataset).WithRevision(url.PathEscape(revision)).WithCacheDir(temp).
		WithAuth(os.Getenv("HF_TOKEN"))
	repo.Verbosity = 0
	const someFile = "x"
	address, err := repo.FileURL(someFile) // which has the commit
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

// url is where a file is, whatever characters its path has.
func (d *dataset) url(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		elements[i] = url.PathEscape(e)
	}
	return d.base + strings.Join(elements, "/")
}

// ErrorCode implements driver.Bucket.
func (b *bucket) ErrorCode(err error) gcerrors.ErrorCode {
	var status *Status
	var never hopeless
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNoDataset):
		return gcerrors.NotFound
	case errors.As(err, &status) && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden):
		return gcerrors.PermissionDenied
	case errors.As(err, &never):
		return gcerrors.InvalidArgument
	case errors.Is(err, errors.ErrUnsupported):
		return gcerrors.Unimplemented
	}
	return gcerrors.Unknown
}

// Attributes implements driver.Bucket.
func (b *bucket) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	_, f, err := b.file(ctx, key)
	return &driver.Attributes{Size: f.size, ETag: f.etag}, err
}

// ListPaged implements driver.Bucket.
func (b *bucket) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	name, prefix, err := split(o.Prefix)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(o.Prefix, name+"/") || o.Delimiter != "" {
		return nil, fmt.Errorf("%w: listing of %s by %q", errors.ErrUnsupported, o.Prefix, o.Delimiter)
	}
	d, err := b.named(ctx, name)
	if err != nil {
		return nil, err
	}
	page := &driver.ListPage{}
	for _, f := range d.files {
		if !strings.HasPrefix(f.path, prefix) || f.path <= string(o.PageToken) {
			continue
		}
		if o.PageSize > 0 && len(page.Objects) == o.PageSize {
			page.NextPageToken = []byte(strings.TrimPrefix(page.Objects[o.PageSize-1].Key, name+"/"))
			break
		}
		page.Objects = append(page.Objects, &driver.ListObject{Key: name + "/" + f.path, Size: f.size})
	}
	return page, nil
}

// As implements driver.Bucket.
func (b *bucket) As(i any) bool {
	to, is := i.(**bucket)
	if is {
		*to = b
	}
	return is
}

// ErrorAs implements driver.Bucket.
func (b *bucket) ErrorAs(error, any) bool { return false }

// Close implements driver.Bucket.
func (b *bucket) Close() error { return nil }

// errReadOnly is that of what only writers need.
var errReadOnly = fmt.Errorf("%w: datasets of the hub can only be read", errors.ErrUnsupported)

// NewTypedWriter implements driver.Bucket.
func (b *bucket) NewTypedWriter(context.Context, string, string, *driver.WriterOptions) (driver.Writer, error) {
	return nil, errReadOnly
}

// Copy implements driver.Bucket.
func (b *bucket) Copy(context.Context, string, string, *driver.CopyOptions) error { return errReadOnly }

// Delete implements driver.Bucket.
func (b *bucket) Delete(context.Context, string, *driver.DeleteOptions) error { return errReadOnly }

// SignedURL implements driver.Bucket.
func (b *bucket) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errReadOnly
}
