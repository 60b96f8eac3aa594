// Package object defines the interface between package storage and the object stores: a few operations on one bucket,
// and the kinds of their errors. Packages s3, azure, gcs and hub implement it; [Memory] does for tests. An
// implementation leaves retries to its caller whenever it can, because only the caller knows how far a read has come.
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
	// Read makes one request for length bytes, at least one, of a version of an object at offset. The caller compares
	// the answer with its request, because not all servers support conditions and ranges.
	Read(ctx context.Context, key string, version Version, offset, length int64) (*Content, error)
	// List returns up to limit objects whose keys start with prefix, and the token of the next page. The token ""
	// requests the first page, and is returned after the last.
	List(ctx context.Context, prefix, token string, limit int) (page []Entry, next string, err error)
	// Create creates an object with all of body, unless the key has one ([Precondition]). If ctx ends before body
	// does, no object is created.
	Create(ctx context.Context, key string, body io.Reader, metadata map[string]string) error
	// Delete removes an object. If there is none, the error is [NotFound] or nil.
	Delete(ctx context.Context, key string) error
}

// A large object is sent in parts of PartSize bytes, up to PartsAtOnce at a time.
const (
	PartSize    = 16 << 20
	PartsAtOnce = 4
)

// ContentType is the media type of each object that is created.
const ContentType = "application/octet-stream"

// Version is one content of an object.
type Version struct {
	ETag       string
	Generation int64 // Google's; 0 in other stores
}

// Attributes describe an object.
type Attributes struct {
	Version
	Size            int64
	ModTime         time.Time
	MD5             []byte  // nil if the store has none
	CRC32C          *uint32 // nil if the store has none
	ContentEncoding string
	Metadata        map[string]string // by keys in lower case
}

// Content is a part of an object.
type Content struct {
	Body   io.ReadCloser
	Offset int64  // offset of Body in the object
	Size   int64  // size of the object
	ETag   string // ETag of the version that is being read
}

// NewContent returns the content of an answer, given its headers. contentRange is "" if the body is the whole object.
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

// An error of a different kind, such as a broken connection, is Unknown: a retry may succeed.
const (
	Unknown Code = iota
	NotFound
	NoBucket
	Precondition // the key has an object already, or not the requested version
	Denied
	Invalid     // the store does not allow such a key
	Unsupported // the store does not have such an operation
	Unusable    // settings or credentials are missing or wrong, so that no request was possible
)

// Error is an error of a store with its code.
type Error struct {
	Code   Code
	Status int // status of the HTTP answer; 0 if there was none
	Err    error
}

// Error returns the text of the store's library.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error of the store's library.
func (e *Error) Unwrap() error { return e.Err }

// HTTPStatusCode returns Status.
func (e *Error) HTTPStatusCode() int { return e.Status }

// FromStatus returns err with the code that an HTTP status has in every store.
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

// CodeOf returns the code of an error, Unknown if it is not an [Error].
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Unknown
}
