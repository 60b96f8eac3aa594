package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"

	"github.com/quire/quire/storage/object"
)

// hopeless reports whether an error without an answer of the store stays what it is however often one asks: the
// settings are wrong, or the server is not who it should be.
func hopeless(err error) bool {
	return badCertificate(err) || !busy(err) && object.CodeOf(err) == object.Unusable
}

// busy says that a server, which may be the one that gives out credentials, could not answer just now.
func busy(err error) bool {
	code := status(err)
	return code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// badCertificate says that the other end cannot be trusted, or speaks no TLS.
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
