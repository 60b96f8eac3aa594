// Package gcs implements a bucket of Google Cloud Storage with its JSON API. Google's own client would need gRPC and
// more, a quarter of what a build compiles.
package gcs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/quire/quire/data/storage/object"
)

type bucket struct {
	name   string
	server string // https://storage.googleapis.com, or a different URL without a slash at its end
	client *http.Client
}

// resource has the used members of an object's JSON.
type resource struct {
	Name            string            `json:"name"`
	Size            int64             `json:"size,string,omitempty"`
	Updated         time.Time         `json:"updated,omitzero"`
	ETag            string            `json:"etag,omitempty"`
	Generation      int64             `json:"generation,string,omitempty"`
	MD5             []byte            `json:"md5Hash,omitempty"`
	CRC32C          string            `json:"crc32c,omitempty"` // in base64, big endian
	ContentEncoding string            `json:"contentEncoding,omitempty"`
	ContentType     string            `json:"contentType,omitempty"`
	Metadata        map[string]string `json:"metadata,omitempty"`
}

// path returns the API path of the bucket's objects, or of one of them.
func (b *bucket) path(key ...string) string {
	p := "/storage/v1/b/" + url.PathEscape(b.name) + "/o"
	for _, k := range key {
		p += "/" + url.PathEscape(k)
	}
	return p
}

// do makes one request. A status other than success is an error, except the one that reports an incomplete upload.
func (b *bucket) do(ctx context.Context, method, address string, header http.Header, body io.Reader) (*http.Response,
	error) {
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := b.client.Do(request)
	if err != nil {
		return nil, coded(err)
	}
	if response.StatusCode < 300 || response.StatusCode == incomplete {
		return response, nil
	}
	defer response.Body.Close()
	return nil, object.FromStatus(response.StatusCode, refusal(response))
}

// refusal reads why the server rejects a request.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	var answer struct{ Error struct{ Message string } }
	if json.Unmarshal(text, &answer) != nil || answer.Error.Message == "" {
		answer.Error.Message, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
	return fmt.Errorf("Google Cloud Storage answers %s: %s", response.Status, answer.Error.Message)
}

// coded adds a code to an error without an answer: the token server may have rejected the credentials.
func coded(err error) error {
	token := (*oauth2.RetrieveError)(nil)
	if !errors.As(err, &token) || token.Response == nil {
		return err
	}
	code := token.Response.StatusCode
	if code < 400 || code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout {
		return err
	}
	return &object.Error{Code: object.Unusable, Err: err}
}

// noBucket changes the error for a request without a key: it is the bucket that does not exist.
func noBucket(err error) error {
	e := (*object.Error)(nil)
	if errors.As(err, &e) && e.Code == object.NotFound {
		e.Code = object.NoBucket
	}
	return err
}

// get reads a JSON answer.
func (b *bucket) get(ctx context.Context, path string, query url.Values, into any) error {
	response, err := b.do(ctx, http.MethodGet, b.server+path+"?"+query.Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

// Attributes implements object.Bucket.
func (b *bucket) Attributes(ctx context.Context, key string) (object.Attributes, error) {
	var r resource
	fields := "name,size,updated,etag,generation,md5Hash,crc32c,contentEncoding,metadata"
	if err := b.get(ctx, b.path(key), url.Values{"fields": {fields}}, &r); err != nil {
		return object.Attributes{}, err
	}
	a := object.Attributes{Size: r.Size, ModTime: r.Updated, MD5: r.MD5, ContentEncoding: r.ContentEncoding,
		Metadata: r.Metadata}
	a.Generation, a.ETag = r.Generation, r.ETag
	if !strings.Contains(a.ETag, `"`) { // as in the header
		a.ETag = strconv.Quote(a.ETag)
	}
	if sum, err := base64.StdEncoding.DecodeString(r.CRC32C); err == nil && len(sum) == 4 {
		a.CRC32C = new(binary.BigEndian.Uint32(sum))
	}
	return a, nil
}

// Read implements object.Bucket.
func (b *bucket) Read(ctx context.Context, key string, version object.Version, offset, length int64) (*object.Content,
	error) {
	query := url.Values{"alt": {"media"}}
	if version.Generation != 0 {
		query.Set("generation", strconv.FormatInt(version.Generation, 10))
	}
	header := http.Header{
		"Range":           {fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)},
		"Accept-Encoding": {"gzip"}, // compressed content is returned as it is stored
	}
	response, err := b.do(ctx, http.MethodGet, b.server+b.path(key)+"?"+query.Encode(), header, nil)
	if err != nil {
		return nil, err
	}
	return object.NewContent(response.Body, response.Header.Get("Content-Range"), response.ContentLength,
		version.ETag)
}

// List implements object.Bucket.
func (b *bucket) List(ctx context.Context, prefix, token string, limit int) (page []object.Entry, next string,
	err error) {
	var answer struct {
		Items         []resource `json:"items"`
		NextPageToken string     `json:"nextPageToken"`
	}
	query := url.Values{"prefix": {prefix}, "maxResults": {strconv.Itoa(limit)},
		"fields": {"nextPageToken,items(name,size,updated)"}}
	if token != "" {
		query.Set("pageToken", token)
	}
	if err := b.get(ctx, b.path(), query, &answer); err != nil {
		return nil, "", noBucket(err)
	}
	for _, r := range answer.Items {
		page = append(page, object.Entry{Key: r.Name, Size: r.Size, ModTime: r.Updated})
	}
	return page, answer.NextPageToken, nil
}

// Delete implements object.Bucket.
func (b *bucket) Delete(ctx context.Context, key string) error {
	response, err := b.do(ctx, http.MethodDelete, b.server+b.path(key), nil, nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
