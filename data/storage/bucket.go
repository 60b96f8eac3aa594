package storage

import (
	"context"
	"errors"
	"sync"

	"github.com/quire/quire/data/storage/azure"
	"github.com/quire/quire/data/storage/gcs"
	"github.com/quire/quire/data/storage/hub"
	"github.com/quire/quire/data/storage/object"
	"github.com/quire/quire/data/storage/s3"
)

// buckets stay open for the life of the process: their clients keep connections and credentials.
var buckets struct {
	sync.Mutex
	byURL map[string]object.Bucket
}

// open returns the location's bucket.
func (l location) open(ctx context.Context) (object.Bucket, error) {
	address := l.scheme + "://" + l.bucket
	if l.scheme != "mem" {
		address += "?" + l.query
	}
	buckets.Lock()
	defer buckets.Unlock()
	if b := buckets.byURL[address]; b != nil {
		return b, nil
	}
	b, err := l.openNew(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	if buckets.byURL == nil {
		buckets.byURL = map[string]object.Bucket{}
	}
	buckets.byURL[address] = b
	return b, nil
}

func (l location) openNew(ctx context.Context) (object.Bucket, error) {
	parameters, err := object.ParseParameters(l.query)
	if err != nil {
		return nil, err
	}
	switch l.scheme {
	case "s3":
		return s3.Open(ctx, l.bucket, parameters)
	case "gs":
		return gcs.Open(ctx, l.bucket, parameters)
	case "azblob":
		return azure.Open(l.bucket, parameters)
	case hubScheme:
		return hub.OpenBucket(), nil
	}
	return object.NewMemory(), nil
}

// pinned is the version of an object that is being read.
type pinned struct {
	object.Version
	size int64
}

// errNoRange reports that a server, or a proxy, returned a whole object when a part was requested.
var errNoRange = errors.New("the server does not support range requests")

// check compares an answer with the requested version and range, because not all servers support conditions and
// ranges.
func (p pinned) check(c *object.Content, offset int64) error {
	switch {
	case c.ETag != p.ETag, c.Size != p.size:
		return ErrChanged
	case c.Offset != offset:
		return errNoRange
	}
	return nil
}

// changed converts the rejection of a conditional read to ErrChanged.
func changed(err error) error {
	if code := object.CodeOf(err); code == object.NotFound || code == object.Precondition {
		return ErrChanged
	}
	return err
}
