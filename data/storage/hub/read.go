package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/quire/quire/data/storage/object"
)

// Read implements object.Bucket. Files of a commit never change, so there is no condition.
func (b *Bucket) Read(ctx context.Context, key string, _ object.Version, offset, length int64) (*object.Content,
	error) {
	d, f, err := b.file(ctx, key)
	if err != nil {
		return nil, coded(err)
	}
	c, err := get(ctx, d.url(f.path), offset, length)
	if err != nil {
		return nil, coded(err)
	}
	c.ETag = f.etag
	return c, nil
}

// get requests length bytes of a file at offset.
func get(ctx context.Context, address string, offset, length int64) (*object.Content, error) {
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
			return &object.Content{Body: response.Body, Offset: from, Size: size}, nil
		}
	}
	response.Body.Close()
	if response.StatusCode < 300 {
		return nil, errors.New("the hub, or a proxy, does not support range requests")
	}
	return nil, &Status{Code: response.StatusCode}
}
