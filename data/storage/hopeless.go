package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"

	"github.com/quire/quire/data/storage/object"
)

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
