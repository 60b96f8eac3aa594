// Package object is the interface between package storage and the object stores: a few operations on one bucket, and
// the kinds of their errors. Packages s3, azure, gcs and hub implement it; [Memory] does for tests. An implementation
// leaves repeating to its caller wherever it can: only the caller knows how far a read came.
package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bucket is a bucket or container of a store. It is safe for concurrent use.
type Bucket interface {
	// Attributes looks an object up.
	Attributes(ctx context.Context, key string) (Attributes, error)
	// Read makes one request for length bytes, at least one, of a version of an object from offset on. The caller
	// compares the answer with what it asked for: not all servers know conditions and ranges.
	Read(ctx context.Context, key string, version Version, offset, length int64) (*Content, error)
	// List returns up to limit objects whose keys begin with prefix, and the token of the next page; "" is the first
	// page, and no next one.
	List(ctx context.Context, prefix, token string, limit int) (page []Entry, next string, err error)
	// Create makes an object of the whole of body, unless the key has one ([Precondition]). When ctx ends before body
	// does, no object is made.
	Create(ctx context.Context, key string, body io.Reader, metadata map[string]string) error
	// Delete removes an object. That there is none may be [NotFound] or no error.
	Delete(ctx context.Context, key string) error
}

// A large object is sent in parts of PartSize bytes, up to PartsAtOnce of them at a time.
const (
	PartSize    = 16 << 20
	PartsAtOnce = 4
)

// ContentType is the media type of each object that is created.
const ContentType = "application/octet-stream"

// Version is one content of an object.
type Version struct {
	ETag       string
	Generation int64 // Google's; 0 elsewhere
}

// Attributes describe an object.
type Attributes struct {
	Version
	Size            int64
	ModTime         time.Time
	MD5             []byte  // nil where the store has none
	CRC32C          *uint32 // likewise
	ContentEncoding string
	Metadata        map[string]string // by keys in lower case
}

// Content is a part of an object.
type Content struct {
	Body   io.ReadCloser
	Offset int64  // where Body begins in the object
	Size   int64  // the object's
	ETag   string // of the version that is read
}

// NewContent returns the content of an answer by its headers. contentRange is "" where the body is the whole object.
func NewContent(body io.ReadCloser, contentRange string, length int64, etag string) (*Content, error) {
	c := &Content{Body: body, Size: length, ETag: etag}
	if contentRange == "" {
		return c, nil
	}
	var last int64
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &c.Offset, &last, &c.Size); err != nil {
		body.Close()
		return nil, fmt.Errorf("the server sends the range %q, which is not one of bytes", contentRange)
	}
	return c, nil
}

// Entry is an object of a list.
type Entry struct {
	Key     string
	Size    int64
	ModTime time.Time
}

// Code is a kind of error.
type Code int

// An error of another kind, such as a broken connection, is Unknown: the next try may succeed.
const (
	Unknown Code = iota
	NotFound
	NoBucket
	Precondition // the key has an object already, or not the version that was asked for
	Denied
	Invalid     // the key is none of this store
	Unsupported // the store has no such operation
	Unusable    // the settings or credentials are missing or wrong, so that nothing could be asked
)

// Error is an error of a store with its kind.
type Error struct {
	Code   Code
	Status int // of the HTTP answer; 0 if there was none
	Err    error
}

// Error is the text of the store's library.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error of the store's library.
func (e *Error) Unwrap() error { return e.Err }

// HTTPStatusCode is Status.
func (e *Error) HTTPStatusCode() int { return e.Status }

// FromStatus returns err with the kind that an HTTP status has in every store.
func FromStatus(status int, err error) *Error {
	e := &Error{Status: status, Err: err}
	switch status {
	case http.StatusNotFound:
		e.Code = NotFound
	case http.StatusPreconditionFailed:
		e.Code = Precondition
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Code = Denied
	}
	return e
}

// CodeOf returns the kind of an error, Unknown for what is no [Error].
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Unknown
}
