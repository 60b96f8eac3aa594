package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
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

// status returns the HTTP status of a provider's answer; 0 if there was none.
func status(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// transient reports whether a retry may succeed.
func transient(err error) bool {
	if errors.Is(err, ErrChanged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return false
	}
	var local *localError
	if errors.As(err, &local) {
		return false
	}
	if errors.Is(err, errStalled) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if hopeless(err) {
		return false
	}
	switch code := status(err); {
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return code != http.StatusNotImplemented
	case code >= 400:
		return false
	}
	switch object.CodeOf(err) {
	case object.NotFound, object.NoBucket, object.Precondition, object.Denied, object.Invalid, object.Unsupported:
		return false
	}
	return true // such as a broken connection or a failed name lookup
}

// reason wraps a provider's error as an error of package fs, with a text for people.
func reason(err error) error {
	if err == nil {
		return nil
	}
	code, st := object.CodeOf(err), status(err)
	switch {
	case errors.Is(err, ErrChanged), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		return err
	case st == http.StatusUnauthorized, st == http.StatusForbidden, code == object.Denied:
		return &as{is: fs.ErrPermission, reason: err,
			text: fmt.Sprintf("access is denied; use credentials that have access (%v)", err)}
	case badCertificate(err):
		return &as{is: err, reason: err,
			text: fmt.Sprintf(
				"the server's certificate is not trusted; correct the address, or name its authority in "+
					"SSL_CERT_FILE (%v)", err)}
	case code == object.Unusable:
		return &as{is: err, reason: err,
			text: fmt.Sprintf(
				"the request could not be sent; give the region and credentials as for other tools of the provider "+
					"(%v)", err)}
	case errors.Is(err, hub.ErrNoDataset):
		return &as{is: fs.ErrNotExist, reason: err, text: hub.ErrNoDataset.Error()}
	case code == object.NoBucket:
		return &as{is: fs.ErrNotExist, reason: err, text: "there is no such bucket"}
	case code == object.NotFound, st == http.StatusNotFound:
		return &as{is: fs.ErrNotExist, reason: err, text: errNoSuch.text}
	}
	return err
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
