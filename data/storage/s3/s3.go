// Package s3 implements a bucket of Amazon S3, or of a server with its protocol, with the client of AWS.
package s3

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	managed "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/quire/quire/data/storage/object"
)

type bucket struct {
	name       string
	client     *s3.Client
	uploader   *transfermanager.Client
	encryption string // on the server, for what is written; "" is the bucket's default
	key        string // key of KMS
}

// Attributes implements object.Bucket.
func (b *bucket) Attributes(ctx context.Context, key string) (object.Attributes, error) {
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return object.Attributes{}, coded(err)
	}
	a := object.Attributes{
		Version:         object.Version{ETag: aws.ToString(out.ETag)},
		Size:            aws.ToInt64(out.ContentLength),
		ModTime:         aws.ToTime(out.LastModified),
		MD5:             digest(aws.ToString(out.ETag)),
		ContentEncoding: aws.ToString(out.ContentEncoding),
		Metadata:        map[string]string{},
	}
	for name, value := range out.Metadata {
		a.Metadata[strings.ToLower(name)] = value
	}
	return a, nil
}

// digest returns the MD5 in the ETag of an object that was sent in one part; nil for an object of several parts.
func digest(etag string) []byte {
	sum, err := hex.DecodeString(strings.Trim(etag, `"`))
	if err != nil || len(etag) < 2 {
		return nil
	}
	return sum
}

// Read implements object.Bucket.
func (b *bucket) Read(ctx context.Context, key string, version object.Version, offset, length int64) (*object.Content,
	error) {
	in := &s3.GetObjectInput{Bucket: &b.name, Key: &key,
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))}
	if version.ETag != "" {
		in.IfMatch = &version.ETag
	}
	out, err := b.client.GetObject(ctx, in, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return nil, coded(err)
	}
	return object.NewContent(out.Body, aws.ToString(out.ContentRange), aws.ToInt64(out.ContentLength),
		aws.ToString(out.ETag))
}

// List implements object.Bucket.
func (b *bucket) List(ctx context.Context, prefix, token string, limit int) (page []object.Entry, next string,
	err error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, MaxKeys: aws.Int32(int32(limit))}
	if token != "" {
		in.ContinuationToken = &token
	}
	out, err := b.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", coded(err)
	}
	for _, o := range out.Contents {
		page = append(page, object.Entry{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size),
			ModTime: aws.ToTime(o.LastModified)})
	}
	return page, aws.ToString(out.NextContinuationToken), nil
}

// Create implements object.Bucket.
func (b *bucket) Create(ctx context.Context, key string, body io.Reader, metadata map[string]string) error {
	in := &transfermanager.UploadObjectInput{Bucket: &b.name, Key: &key, Body: body, Metadata: metadata,
		ContentType: aws.String(object.ContentType), IfNoneMatch: aws.String("*"),
		ServerSideEncryption: managed.ServerSideEncryption(b.encryption)}
	if b.key != "" {
		in.SSEKMSKeyID = &b.key
	}
	_, err := b.uploader.UploadObject(ctx, in)
	return coded(err)
}

// Delete implements object.Bucket.
func (b *bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key})
	return coded(err)
}

// coded adds a code to an error of the client.
func coded(err error) error {
	if err == nil {
		return nil
	}
	status := 0
	if answer := interface{ HTTPStatusCode() int }(nil); errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	e := object.FromStatus(status, err)
	if unsent(err) || status == http.StatusMovedPermanently { // a bucket in a different region
		e.Code = object.Unusable
		return e
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return e
	}
	switch api.ErrorCode() {
	case "NoSuchBucket":
		e.Code = object.NoBucket
	case "NoSuchKey", "NotFound":
		e.Code = object.NotFound
	case "PreconditionFailed":
		e.Code = object.Precondition
	case "AccessDenied", "Forbidden":
		e.Code = object.Denied
	}
	return e
}

// unsent reports whether the client made no request, for example without a region or without credentials.
func unsent(err error) bool {
	text := err.Error()
	if strings.Contains(text, "no EC2 IMDS role found") {
		return true
	}
	var operation *smithy.OperationError
	var sent *smithyhttp.RequestSendError
	return errors.As(err, &operation) && !errors.As(err, &sent) &&
		(strings.Contains(text, "resolve endpoint") || strings.Contains(text, "get credentials"))
}
