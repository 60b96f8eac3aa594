package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/oauth2"
)

// hopeless reports whether an error without an answer of the store stays what it is however often one asks: the
// settings are wrong, or the server is not who it should be.
func hopeless(err error) bool {
	return badCertificate(err) || !busy(err) && (unsent(err) || badCredentials(err))
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

// unsent says that AWS's library made no request of what it was given: without a region, for one, or without
// credentials.
func unsent(err error) bool {
	var operation *smithy.OperationError
	var sent *smithyhttp.RequestSendError
	if !errors.As(err, &operation) || errors.As(err, &sent) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "resolve endpoint") || strings.Contains(text, "get credentials")
}

// badCredentials says that there are none, or that the server that gives out tokens refuses them.
func badCredentials(err error) bool {
	if token := (*oauth2.RetrieveError)(nil); errors.As(err, &token) && token.Response != nil {
		code := token.Response.StatusCode
		return code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
	}
	return strings.Contains(err.Error(), "no EC2 IMDS role found")
}
