package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"gocloud.dev/blob/driver"
)

// reader is a part of a file.
type reader struct {
	io.ReadCloser
	size int64 // of the file
}

// Attributes implements driver.Reader.
func (r *reader) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{Size: r.size} }

// As implements driver.Reader.
func (r *reader) As(any) bool { return false }

// NewRangeReader implements driver.Bucket.
func (b *bucket) NewRangeReader(ctx context.Context, key string, offset, length int64, o *driver.ReaderOptions) (
	driver.Reader, error) {
	d, f, err := b.file(ctx, key)
	if err != nil {
		return nil, err
	}
	if o.BeforeRead != nil {
		if err := o.BeforeRead(func(any) bool { return false }); err != nil {
			return nil, err
		}
	}
	if length < 0 || length > f.size-offset {
		length = max(f.size-offset, 0)
	}
	if length == 0 {
		return &reader{io.NopCloser(strings.NewReader("")), f.size}, nil
	}
	return get(ctx, d.url(f.path), offset, length)
}

// get asks for length bytes of a file from offset on.
func get(ctx context.Context, address string, offset, length int64) (*reader, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header = Header()
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	var from, to, size int64
	if response.StatusCode == http.StatusPartialContent {
		_, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size)
		if err == nil && from == offset && to == offset+length-1 {
			return &reader{response.Body, size}, nil
		}
	}
	response.Body.Close()
	if response.StatusCode < 300 {
		return nil, errors.New("the hub, or a proxy, does not support range requests")
	}
	return nil, &Status{Code: response.StatusCode}
}
