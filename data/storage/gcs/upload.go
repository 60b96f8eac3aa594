package gcs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"time"

	"github.com/quire/quire/data/storage/object"
)

// incomplete is the status for a part of an upload that is not the last one.
const incomplete = http.StatusPermanentRedirect

// A part is sent chunkTries times while no more of it arrives. The pause between tries is doubled each time.
const (
	chunkTries = 5
	chunkPause = 100 * time.Millisecond
)

// Create implements object.Bucket. A body smaller than one part is sent in one request, a larger one by a resumable
// upload. The server verifies the CRC-32C of both.
func (b *bucket) Create(ctx context.Context, key string, body io.Reader, metadata map[string]string) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	body = io.TeeReader(body, sum)
	var chunk bytes.Buffer
	_, err := io.CopyN(&chunk, body, object.PartSize)
	if err != nil && err != io.EOF {
		return err
	}
	about := resource{Name: key, ContentType: object.ContentType, Metadata: metadata}
	if err == io.EOF {
		about.CRC32C = encoded(sum)
		return noBucket(b.createAtOnce(ctx, about, chunk.Bytes()))
	}
	session, err := b.start(ctx, about)
	if err != nil {
		return noBucket(err)
	}
	for from, last := int64(0), false; !last; {
		if from > 0 {
			chunk.Reset()
			_, err = io.CopyN(&chunk, body, object.PartSize)
			if last = err == io.EOF; err != nil && !last {
				return err
			}
		}
		u := upload{bucket: b, session: session, from: from, data: chunk.Bytes()}
		if last {
			u.sum = encoded(sum)
		}
		if err := u.send(ctx); err != nil {
			return err
		}
		from += int64(chunk.Len())
	}
	return nil
}

func encoded(sum hash.Hash32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32()))
}

// uploads returns the URL for new objects.
func (b *bucket) uploads(kind string) string {
	return b.server + "/upload" + b.path() + "?" +
		url.Values{"uploadType": {kind}, "ifGenerationMatch": {"0"}}.Encode()
}

// createAtOnce sends an object with its metadata.
func (b *bucket) createAtOnce(ctx context.Context, about resource, data []byte) error {
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	for _, p := range []struct {
		kind string
		data []byte
	}{{"application/json; charset=UTF-8", text}, {object.ContentType, data}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {p.kind}})
		if err != nil {
			return err
		}
		w.Write(p.data) // writes to memory, which does not fail
	}
	parts.Close()
	header := http.Header{"Content-Type": {"multipart/related; boundary=" + parts.Boundary()}}
	response, err := b.do(ctx, http.MethodPost, b.uploads("multipart"), header, &body)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// start starts a resumable upload, and returns the URL for its parts.
func (b *bucket) start(ctx context.Context, about resource) (string, error) {
	text, err := json.Marshal(about)
	if err != nil {
		return "", err
	}
	header := http.Header{"Content-Type": {"application/json; charset=UTF-8"},
		"X-Upload-Content-Type": {object.ContentType}}
	response, err := b.do(ctx, http.MethodPost, b.uploads("resumable"), header, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	response.Body.Close()
	session := response.Header.Get("Location")
	if session == "" {
		return "", errors.New("Google Cloud Storage started an upload, but names no address for it")
	}
	return session, nil
}

// upload is one part of a resumable upload.
type upload struct {
	*bucket
	session string
	from    int64 // offset of data in the object
	data    []byte
	sum     string // checksum of the whole object, if this is its last part
}

// send sends a part. After a failed request, it asks the server how much of the part arrived, and sends the rest.
func (u *upload) send(ctx context.Context) error {
	end := u.from + int64(len(u.data))
	ask, pause := false, chunkPause
	for failures := 0; ; {
		done, have, err := u.request(ctx, ask)
		switch {
		case err != nil && !again(err):
			return lost(err)
		case err != nil:
		case done && u.sum == "":
			return errors.New("Google Cloud Storage ended an upload before its last part")
		case done, have == end && u.sum == "":
			return nil
		case have < u.from || have > end:
			return fmt.Errorf("Google Cloud Storage has %d bytes of an upload, but those from %d to %d were sent", have,
				u.from, end)
		case have > u.from, ask:
			if have > u.from {
				failures, pause = 0, chunkPause
			}
			u.data, u.from, ask = u.data[have-u.from:], have, false
			continue
		default:
			err = errors.New("Google Cloud Storage accepts no more of an upload")
		}
		if failures++; failures == chunkTries {
			return err
		}
		ask = true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// request sends the rest of the part, or asks how much has arrived. done reports that the object was created, have
// how many bytes have arrived.
func (u *upload) request(ctx context.Context, ask bool) (done bool, have int64, err error) {
	total, end := "*", u.from+int64(len(u.data))
	header, body := http.Header{}, io.Reader(http.NoBody)
	if u.sum != "" {
		total = fmt.Sprint(end)
	}
	if ask || len(u.data) == 0 {
		header.Set("Content-Range", "bytes */"+total)
	} else {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", u.from, end-1, total))
		body = bytes.NewReader(u.data)
	}
	if u.sum != "" {
		header.Set("X-Goog-Hash", "crc32c="+u.sum)
	}
	response, err := u.do(ctx, http.MethodPut, u.session, header, body)
	if err != nil {
		return false, 0, err
	}
	response.Body.Close()
	if response.StatusCode != incomplete {
		return true, end, nil
	}
	if text := response.Header.Get("Range"); text != "" {
		if _, err := fmt.Sscanf(text, "bytes=0-%d", &have); err != nil {
			return false, 0, fmt.Errorf("Google Cloud Storage has the range %q of an upload: it is not a range", text)
		}
		have++
	}
	return false, have, nil
}

// lost removes the code from the error that the upload does not exist, because a new one may succeed.
func lost(err error) error {
	e := (*object.Error)(nil)
	if errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusGone) {
		e.Code, e.Status = object.Unknown, 0
	}
	return err
}

// again reports whether a part that failed with this error is sent again.
func again(err error) bool {
	e := (*object.Error)(nil)
	return !errors.As(err, &e) || e.Status >= 500 || e.Status == http.StatusTooManyRequests ||
		e.Status == http.StatusRequestTimeout
}
