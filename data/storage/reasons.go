package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/quire/quire/data/storage/hub"
	"github.com/quire/quire/data/storage/object"
)

// ErrChanged reports that an object was replaced or removed after Open.
var ErrChanged = errors.New("it was replaced or removed while it was being read; do not change files during a job")

var errStalled = errors.New("no data came for too long")

// as is an error with the identity of one of package fs's errors, and the text of the reason.
type as struct {
	target error
	reason error
	text   string
}

func (e *as) Error() string {
	if e.text != "" {
		return e.text
	}
	return e.reason.Error()
}

func (e *as) Unwrap() []error { return []error{e.target, e.reason} }

var errNoSuch = &as{target: fs.ErrNotExist, reason: fs.ErrNotExist, text: "there is no such file or folder"}

// localError is an error of reading what is to be sent, which retrying cannot fix.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// pathless removes the name from an error of package os, because our own error has it, too.
func pathless(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		if errors.Is(p.Err, fs.ErrNotExist) {
			return errNoSuch
		}
		return p.Err
	}
	return err
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
		return &as{target: fs.ErrPermission, reason: err,
			text: fmt.Sprintf("access is denied; use credentials that have access (%v)", err)}
	case badCertificate(err):
		return &as{target: err, reason: err,
			text: fmt.Sprintf(
				"the server's certificate is not trusted; correct the address, or name its authority in "+
					"SSL_CERT_FILE (%v)", err)}
	case code == object.Unusable:
		return &as{target: err, reason: err,
			text: fmt.Sprintf(
				"the request could not be sent; give the region and credentials as for other tools of the provider "+
					"(%v)", err)}
	case errors.Is(err, hub.ErrNoDataset):
		return &as{target: fs.ErrNotExist, reason: err, text: hub.ErrNoDataset.Error()}
	case code == object.NoBucket:
		return &as{target: fs.ErrNotExist, reason: err, text: "there is no such bucket"}
	case code == object.NotFound, st == http.StatusNotFound:
		return &as{target: fs.ErrNotExist, reason: err, text: errNoSuch.text}
	}
	return err
}

// hopeless reports whether retrying cannot help after an error that came without an answer from the store: the
// settings are wrong, or the server is not the right one.
func hopeless(err error) bool {
	return badCertificate(err) || !busy(err) && object.CodeOf(err) == object.Unusable
}

// busy reports whether a server, which may be the one that issues credentials, was temporarily unable to answer.
func busy(err error) bool {
	code := status(err)
	return code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// badCertificate reports whether the server cannot be trusted, or does not use TLS.
func badCertificate(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		plain        tls.RecordHeaderError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) ||
		errors.As(err, &invalid) || errors.As(err, &plain) ||
		errors.Is(err, http.ErrSchemeMismatch)
}
