package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"path/filepath"
)

// ErrNoRanges reports that a web server sends only whole files.
var ErrNoRanges = errors.New("the server does not send parts of files")

// webFile is a file of a web server. Its URL names the version: the content never changes.
type webFile struct {
	url    string
	header http.Header
	size   int64
}

// webStatus is an unexpected HTTP status.
type webStatus struct{ response *http.Response }

func (e *webStatus) Error() string       { return "the server answers " + e.response.Status }
func (e *webStatus) HTTPStatusCode() int { return e.response.StatusCode }

// OpenPartialURL is OpenPartial for a file of a web server, at a URL whose content never changes, such as a commit's.
// header is sent with each request. If the server does not support ranges, the error wraps [ErrNoRanges].
func OpenPartialURL(ctx context.Context, url string, header http.Header, cache string, o PartialOptions) (*Partial,
	error) {
	f := &webFile{url: url, header: header}
	err := again(ctx, func(a attempt) error {
		body, size, err := f.get(a.ctx, 0, 1)
		if err == nil {
			f.size, err = size, body.Close()
		}
		return err
	})
	if err != nil {
		return nil, failed("fetch", url, reason(err))
	}
	base := path.Base(url)
	if base != filepath.Base(filepath.FromSlash(base)) || !filepath.IsLocal(base) {
		return nil, failed("fetch", url, errors.New("its name is not valid for a local file"))
	}
	identity := sha256.New()
	fmt.Fprintln(identity, url, f.size)
	return newPartial(ctx, f, filepath.Join(cache, "object-"+short(identity)), base, o)
}

func (f *webFile) label() string { return f.url }
func (f *webFile) length() int64 { return f.size }

// get requests n bytes at offset, and returns the size of the file.
func (f *webFile) get(ctx context.Context, offset, n int64) (body io.ReadCloser, size int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return nil, 0, err
	}
	request.Header = f.header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+n-1))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	var from, to int64
	if response.StatusCode == http.StatusPartialContent {
		what := response.Header.Get("Content-Range")
		if _, err := fmt.Sscanf(what, "bytes %d-%d/%d", &from, &to, &size); err == nil && from == offset &&
			to == offset+n-1 {
			return response.Body, size, nil
		}
	}
	response.Body.Close()
	if response.StatusCode < 300 {
		return nil, 0, &localError{ErrNoRanges}
	}
	return nil, 0, &webStatus{response}
}

func (f *webFile) fill(ctx context.Context, p []byte, offset int64) error {
	return reason(again(ctx, func(a attempt) error {
		body, size, err := f.get(a.ctx, offset, int64(len(p)))
		if err != nil {
			return err
		}
		defer body.Close()
		if size != f.size {
			return fmt.Errorf("%w: it has %d bytes and had %d", ErrChanged, size, f.size)
		}
		n, err := a.fill(p, body)
		p, offset = p[n:], offset+int64(n)
		return err
	}))
}
