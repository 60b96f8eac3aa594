package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	gcs "cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	"gocloud.dev/blob/memblob"
	_ "gocloud.dev/blob/s3blob" // s3://
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/quire/quire/storage/hub"
)

// buckets are open for the life of the process: their clients keep connections and credentials.
var buckets struct {
	sync.Mutex
	byURL map[string]*blob.Bucket
}

// open returns the location's bucket.
func (l location) open(ctx context.Context) (*blob.Bucket, error) {
	address := l.scheme + "://" + l.bucket
	if l.query != "" && l.scheme != "mem" {
		address += "?" + l.query
	}
	buckets.Lock()
	defer buckets.Unlock()
	if b := buckets.byURL[address]; b != nil {
		return b, nil
	}
	var b *blob.Bucket
	var err error
	if l.scheme == "mem" {
		b = memblob.OpenBucket(nil)
	} else if l.scheme == hubScheme {
		b = hub.OpenBucket()
	} else if b, err = blob.OpenBucket(context.WithoutCancel(ctx), address); err != nil {
		return nil, err
	}
	if buckets.byURL == nil {
		buckets.byURL = map[string]*blob.Bucket{}
	}
	buckets.byURL[address] = b
	return b, nil
}

// status is the HTTP status of a provider's answer; 0 if there was none.
func status(err error) int {
	var awsErr interface{ HTTPStatusCode() int }
	var googleErr *googleapi.Error
	var azureErr *azcore.ResponseError
	switch {
	case errors.As(err, &awsErr):
		return awsErr.HTTPStatusCode()
	case errors.As(err, &googleErr):
		return googleErr.Code
	case errors.As(err, &azureErr):
		return azureErr.StatusCode
	}
	return 0
}

// transient reports whether it may go better the next time.
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
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.AlreadyExists, gcerrors.InvalidArgument, gcerrors.Unimplemented,
		gcerrors.FailedPrecondition,
		gcerrors.PermissionDenied:
		return false
	}
	return true // a connection that broke, a name that was not resolved
}

// noBucket says that it is the bucket that is not there.
func noBucket(err error) bool {
	var s3Error smithy.APIError
	var azureError *azcore.ResponseError
	return errors.As(err, &s3Error) && s3Error.ErrorCode() == "NoSuchBucket" ||
		errors.As(err, &azureError) && azureError.ErrorCode == "ContainerNotFound"
}

// reason gives a provider's error an identity of package fs and a text for people.
func reason(err error) error {
	if err == nil {
		return nil
	}
	code, st := gcerrors.Code(err), status(err)
	switch {
	case errors.Is(err, ErrChanged), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		return err
	case st == http.StatusUnauthorized, st == http.StatusForbidden, code == gcerrors.PermissionDenied:
		return &as{is: fs.ErrPermission, reason: err,
			text: fmt.Sprintf("access is denied; use credentials that have access (%v)", err)}
	case badCertificate(err):
		return &as{is: err, reason: err,
			text: fmt.Sprintf(
				"the server's certificate is not trusted; correct the address, or name its authority in "+
					"SSL_CERT_FILE (%v)", err)}
	case unsent(err), badCredentials(err):
		return &as{is: err, reason: err,
			text: fmt.Sprintf(
				"the request could not be sent; give the region and credentials as for other tools of the provider "+
					"(%v)", err)}
	case errors.Is(err, hub.ErrNoDataset):
		return &as{is: fs.ErrNotExist, reason: err, text: hub.ErrNoDataset.Error()}
	case noBucket(err):
		return &as{is: fs.ErrNotExist, reason: err, text: "there is no such bucket"}
	case code == gcerrors.NotFound, st == http.StatusNotFound:
		return &as{is: fs.ErrNotExist, reason: err, text: errNoSuch.text}
	}
	return err
}

// pinned says which version of an object is read.
type pinned struct {
	size       int64
	etag       string
	generation int64     // Google's
	modTime    time.Time // of an object in memory, which has no other sign
}

func pin(attrs *blob.Attributes, scheme string) pinned {
	p := pinned{size: attrs.Size, etag: attrs.ETag}
	var object gcs.ObjectAttrs
	if attrs.As(&object) {
		p.generation = object.Generation
	}
	if scheme == "mem" {
		p.modTime = attrs.ModTime
	}
	return p
}

// ask makes a read's request conditional on the version, and leaves repeating it to us: the drivers know nothing of how
// far the last one came. It is blob.ReaderOptions.BeforeRead.
func (p pinned) ask(as func(any) bool) error {
	var input *s3.GetObjectInput
	if as(&input) && p.etag != "" {
		input.IfMatch = aws.String(p.etag)
	}
	var options *[]func(*s3.Options)
	if as(&options) {
		*options = append(*options, func(o *s3.Options) {
			o.Retryer, o.Logger = aws.NopRetryer{}, logging.Nop{} // it would log each body that broke off
		})
	}
	var handle **gcs.ObjectHandle
	if as(&handle) {
		*handle = (*handle).Generation(p.generation).ReadCompressed(true).Retryer(gcs.WithPolicy(gcs.RetryNever))
	}
	var download *azblob.DownloadStreamOptions
	if as(&download) && p.etag != "" {
		tag := azcore.ETag(p.etag)
		download.AccessConditions = &azblob.AccessConditions{ModifiedAccessConditions: &azblob.ModifiedAccessConditions{
			IfMatch: &tag}}
	}
	return nil
}

// onceOnly is a context in which Azure's client, too, leaves repeating to us.
func onceOnly(ctx context.Context) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
}

// errNoRange is a server's, or a proxy's, that sends all of an object when a part is asked for.
var errNoRange = errors.New("the server does not support range requests")

// check compares an answer with the version and the range asked for: not all servers know conditions and ranges.
func (p pinned) check(r *blob.Reader, offset int64) error {
	var out s3.GetObjectOutput
	isS3 := r.As(&out)
	switch {
	case isS3 && aws.ToString(out.ETag) != p.etag, !p.modTime.IsZero() && !p.modTime.Equal(r.ModTime()):
		return ErrChanged
	case isS3 && offset > 0 && out.ContentRange == nil:
		return errNoRange
	case r.Size() != p.size:
		return ErrChanged
	}
	return nil
}

// changed turns the refusal of a conditional read into ErrChanged.
func changed(err error) error {
	if code := gcerrors.Code(err); code == gcerrors.NotFound || code == gcerrors.FailedPrecondition ||
		status(err) == http.StatusPreconditionFailed {
		return ErrChanged
	}
	return err
}
