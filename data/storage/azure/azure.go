// Package azure implements a container of Azure Blob Storage with Azure's client.
package azure

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/quire/quire/data/storage/object"
)

type bucket struct{ client *container.Client }

// onceOnly returns a context in which the client, and the code that fetches its tokens, leave retries to the caller.
func onceOnly(ctx context.Context) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
}

// deref returns what p points to, or the zero value.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Attributes implements object.Bucket.
func (b *bucket) Attributes(ctx context.Context, key string) (object.Attributes, error) {
	out, err := b.client.NewBlobClient(key).GetProperties(onceOnly(ctx), nil)
	if err != nil {
		return object.Attributes{}, coded(err)
	}
	a := object.Attributes{
		Version:         object.Version{ETag: string(deref(out.ETag))},
		Size:            deref(out.ContentLength),
		ModTime:         deref(out.LastModified),
		MD5:             out.ContentMD5,
		ContentEncoding: deref(out.ContentEncoding),
		Metadata:        map[string]string{},
	}
	for name, value := range out.Metadata {
		a.Metadata[strings.ToLower(name)] = deref(value)
	}
	return a, nil
}

// Read implements object.Bucket.
func (b *bucket) Read(ctx context.Context, key string, version object.Version, offset, length int64) (*object.Content,
	error) {
	options := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: offset, Count: length}}
	if version.ETag != "" {
		options.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{
			IfMatch: to.Ptr(azcore.ETag(version.ETag))}}
	}
	out, err := b.client.NewBlobClient(key).DownloadStream(onceOnly(ctx), options)
	if err != nil {
		return nil, coded(err)
	}
	return object.NewContent(out.Body, deref(out.ContentRange), deref(out.ContentLength), string(deref(out.ETag)))
}

// List implements object.Bucket.
func (b *bucket) List(ctx context.Context, prefix, token string, limit int) (page []object.Entry, next string,
	err error) {
	options := &container.ListBlobsFlatOptions{Prefix: &prefix, MaxResults: to.Ptr(int32(limit))}
	if token != "" {
		options.Marker = &token
	}
	out, err := b.client.NewListBlobsFlatPager(options).NextPage(onceOnly(ctx))
	if err != nil {
		return nil, "", coded(err)
	}
	if out.Segment == nil {
		return nil, deref(out.NextMarker), nil
	}
	for _, o := range out.Segment.BlobItems {
		e := object.Entry{Key: deref(o.Name)}
		if o.Properties != nil {
			e.Size, e.ModTime = deref(o.Properties.ContentLength), deref(o.Properties.LastModified)
		}
		page = append(page, e)
	}
	return page, deref(out.NextMarker), nil
}

// Create implements object.Bucket.
func (b *bucket) Create(ctx context.Context, key string, body io.Reader, metadata map[string]string) error {
	options := &blockblob.UploadStreamOptions{
		BlockSize: object.PartSize, Concurrency: object.PartsAtOnce, Metadata: map[string]*string{},
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr(object.ContentType)},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{
			IfNoneMatch: to.Ptr(azcore.ETagAny)}},
	}
	for name, value := range metadata {
		options.Metadata[name] = &value
	}
	_, err := b.client.NewBlockBlobClient(key).UploadStream(onceOnly(ctx), body, options)
	return coded(err)
}

// Delete implements object.Bucket.
func (b *bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.NewBlobClient(key).Delete(onceOnly(ctx), nil)
	return coded(err)
}

// coded adds a code to an error of the client.
func coded(err error) error {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return err
	}
	e := object.FromStatus(answer.StatusCode, err)
	switch bloberror.Code(answer.ErrorCode) {
	case bloberror.ContainerNotFound:
		e.Code = object.NoBucket
	case bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.TargetConditionNotMet:
		e.Code = object.Precondition
	}
	return e
}
