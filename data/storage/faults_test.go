package storage

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func TestMain(m *testing.M) {
	patience.firstWait, patience.maxWait, patience.stall = time.Millisecond, 10*time.Millisecond, 300*time.Millisecond
	os.Setenv("AWS_ACCESS_KEY_ID", "quire")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "QUIRESECRETKEY")
	os.Setenv("AWS_REGION", "us-east-1")
	os.Setenv("AZURE_STORAGE_ACCOUNT", "quire")
	os.Setenv("AZURE_STORAGE_KEY", "UVVJUkVTRUNSRVRLRVk=")
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// trouble stands before a server and does to its answers what networks and overloaded servers do.
type trouble struct {
	next http.Handler

	mu       sync.Mutex
	inject   func(r *http.Request) string // which fault the request meets; "" is none
	log      []string                     // "METHOD path range"
	served   int64                        // bytes of bodies of GET
	requests int
}

func (t *trouble) set(inject func(r *http.Request) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inject, t.log, t.served, t.requests = inject, nil, 0, 0
}

func (t *trouble) counts() (requests int, served int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests, t.served
}

func (t *trouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	fault := ""
	if t.inject != nil {
		fault = t.inject(r)
	}
	t.requests++
	t.log = append(t.log, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Range")+" "+fault))
	t.mu.Unlock()
	switch fault {
	case "500", "503", "429", "403", "404":
		io.Copy(io.Discard, r.Body)
		code, _ := strconv.Atoi(fault)
		http.Error(w, "<Error><Code>Injected</Code></Error>", code)
		return
	case "reset":
		panic(http.ErrAbortHandler)
	case "stall":
		io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	t.next.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	if r.Method == http.MethodGet {
		t.mu.Lock()
		t.served += int64(len(body))
		t.mu.Unlock()
	}
	switch fault {
	case "lost": // done, and nobody hears of it
		panic(http.ErrAbortHandler)
	case "truncated": // the connection breaks in the middle of the body
		w.WriteHeader(answer.Code)
		w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "short": // a proxy that claims the body is complete
		w.Header().Set("Content-Length", strconv.Itoa(len(body)/2))
		w.WriteHeader(answer.Code)
		w.Write(body[:len(body)/2])
		return
	case "slow": // comes, but in drops with pauses below the limit
		w.WriteHeader(answer.Code)
		for len(body) > 0 {
			n := min(len(body), 1+len(body)/2)
			w.Write(body[:n])
			w.(http.Flusher).Flush()
			body = body[n:]
			time.Sleep(5 * time.Millisecond)
		}
		return
	case "hang": // starts, and does not continue
		w.WriteHeader(answer.Code)
		w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
		panic(http.ErrAbortHandler)
	case "corrupt":
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}
	}
	w.WriteHeader(answer.Code)
	w.Write(body)
}

// provider is a fake server of one kind, with trouble before it.
type provider struct {
	name string
	*trouble
	url func(key string) string
	raw func(t *testing.T, key string, data []byte) // writes past the conditions
}

func serve(t *testing.T, next http.Handler) (*trouble, string) {
	tr := &trouble{next: next}
	server := httptest.NewUnstartedServer(tr)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return tr, server.URL
}

func fakeS3(t *testing.T) *provider {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	tr, address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// S3 looks at the condition of the request that ends an upload of several parts; this server does so for one of
		// one part only.
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && r.Header.Get("If-None-Match") == "*" {
			if _, err := backend.HeadObject("bucket", strings.TrimPrefix(r.URL.Path, "/bucket/")); err == nil {
				http.Error(w, "<Error><Code>PreconditionFailed</Code></Error>", http.StatusPreconditionFailed)
				return
			}
		}
		fake.ServeHTTP(w, r)
	}))
	return &provider{
		name: "s3", trouble: tr,
		url: func(key string) string {
			return "s3://bucket/" + key + "?endpoint=" + address +
				"&use_path_style=true&hostname_immutable=true&region=us-east-1"
		},
		raw: func(t *testing.T, key string, data []byte) {
			if _, err := backend.PutObject("bucket", key, map[string]string{}, bytes.NewReader(data), int64(len(data)),
				nil); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// bucketsForgotten makes the next use of a bucket read the environment again.
func bucketsForgotten(t *testing.T) {
	forget := func() {
		buckets.Lock()
		defer buckets.Unlock()
		clear(buckets.byURL)
	}
	forget()
	t.Cleanup(forget)
}

// fakeAzure implements what is used of Azure's protocol here. There is no such server among Go's modules.
func fakeAzure(t *testing.T) *provider {
	f := &azureServer{blobs: map[string]azureBlob{}, staged: map[string][]byte{}}
	tr, address := serve(t, f)
	host := strings.TrimPrefix(address, "http://")
	return &provider{
		name: "azblob", trouble: tr,
		url: func(key string) string { return "azblob://bucket/" + key + "?protocol=http&domain=" + host },
		raw: func(t *testing.T, key string, data []byte) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.store(key, data, http.Header{})
		},
	}
}

type azureBlob struct {
	data []byte
	meta http.Header
	etag string
}

type azureServer struct {
	mu     sync.Mutex
	blobs  map[string]azureBlob
	staged map[string][]byte
	serial int
}

func (f *azureServer) store(key string, data []byte, h http.Header) {
	f.serial++
	b := azureBlob{data: bytes.Clone(data), meta: http.Header{}, etag: fmt.Sprintf(`"0x%d"`, f.serial)}
	for k, v := range h {
		if strings.HasPrefix(strings.ToLower(k), "x-ms-meta-") {
			b.meta[k] = v
		}
	}
	f.blobs[key] = b
}

func azureError(w http.ResponseWriter, code int, name string) {
	w.Header().Set("x-ms-error-code", name)
	w.WriteHeader(code)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", name)
}

func (f *azureServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/quire/bucket")
	key = strings.TrimPrefix(key, "/")
	q := r.URL.Query()
	body, _ := io.ReadAll(r.Body)
	b, there := f.blobs[key]
	switch {
	case r.Method == http.MethodGet && q.Get("comp") == "list":
		f.list(w, q.Get("prefix"), q.Get("marker"), q.Get("maxresults"))
	case r.Method == http.MethodPut && q.Get("comp") == "block":
		f.staged[key+q.Get("blockid")] = body
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPut:
		if there && r.Header.Get("If-None-Match") == "*" {
			azureError(w, http.StatusConflict, "BlobAlreadyExists")
			return
		}
		if q.Get("comp") == "blocklist" {
			var blocks struct{ Latest []string }
			xml.Unmarshal(body, &blocks)
			body = nil
			for _, id := range blocks.Latest {
				body = append(body, f.staged[key+id]...)
			}
		}
		f.store(key, body, r.Header)
		w.WriteHeader(http.StatusCreated)
	case !there:
		azureError(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(f.blobs, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		if tag := r.Header.Get("If-Match"); tag != "" && tag != b.etag {
			azureError(w, http.StatusPreconditionFailed, "ConditionNotMet")
			return
		}
		for k, v := range b.meta {
			w.Header()[k] = v
		}
		w.Header().Set("ETag", b.etag)
		w.Header().Set("x-ms-blob-type", "BlockBlob")
		w.Header().Set("x-ms-creation-time", "Sun, 09 Sep 2001 01:46:40 GMT")
		if ranged := r.Header.Get("x-ms-range"); ranged != "" {
			r.Header.Set("Range", ranged)
		}
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(b.data))
	}
}

func (f *azureServer) list(w http.ResponseWriter, prefix, marker, limit string) {
	var keys []string
	for key := range f.blobs {
		if strings.HasPrefix(key, prefix) && key > marker {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	next := ""
	if n, _ := strconv.Atoi(limit); n > 0 && len(keys) > n {
		keys, next = keys[:n], keys[n-1]
	}
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b,
			"<Blob><Name>%s</Name><Properties><Last-Modified>Sun, 09 Sep 2001 01:46:40 "+
				"GMT</Last-Modified><Etag>x</Etag>"+
				"<Content-Length>%d</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>", key,
			len(f.blobs[key].data))
	}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w,
		`<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>%s</Blobs><NextMarker>%s</NextMarker></EnumerationResults>`, b.String(), next)
}

// providers runs a test against every fake.
func providers(t *testing.T, test func(t *testing.T, p *provider)) {
	for name, make := range map[string]func(t *testing.T) *provider{"s3": fakeS3, "gs": fakeGCS, "azblob": fakeAzure} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

func noise(n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	r.Read(data)
	return data
}
