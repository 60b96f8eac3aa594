package storage

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// googleServer knows as much of the JSON API of Google Cloud Storage as is used here.
type googleServer struct {
	mu       sync.Mutex
	objects  map[string]googleObject
	sessions map[string]*googleSession
	serial   int64
}

type googleObject struct {
	Name       string            `json:"name"`
	Size       string            `json:"size"`
	Updated    time.Time         `json:"updated"`
	ETag       string            `json:"etag"`
	Generation string            `json:"generation"`
	CRC32C     string            `json:"crc32c"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	data       []byte
}

// googleSession is a resumable upload.
type googleSession struct {
	about googleObject
	data  []byte
	done  bool
}

func fakeGCS(t *testing.T) *provider {
	g := &googleServer{objects: map[string]googleObject{}, sessions: map[string]*googleSession{}}
	tr, address := serve(t, g)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(address, "http://"))
	bucketsForgotten(t)
	return &provider{
		name: "gs", trouble: tr,
		url: func(key string) string { return "gs://bucket/" + key },
		raw: func(t *testing.T, key string, data []byte) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.store(googleObject{Name: key}, data)
		},
	}
}

func googleSum(data []byte) string {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (g *googleServer) store(o googleObject, data []byte) {
	g.serial++
	o.data, o.CRC32C, o.Updated = bytes.Clone(data), googleSum(data), time.Unix(1e9, 0).UTC()
	o.Size, o.Generation, o.ETag = strconv.Itoa(len(data)), strconv.FormatInt(1e15+g.serial, 10), fmt.Sprint(g.serial)
	g.objects[o.Name] = o
}

func googleError(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error": {"code": %d, "message": %q}}`, code, message)
}

func (g *googleServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client broke off
	}
	path, q := r.URL.EscapedPath(), r.URL.Query()
	const objects = "/storage/v1/b/bucket/o"
	switch {
	case path == "/upload"+objects && r.Method == http.MethodPost:
		g.upload(w, r, body)
	case path == "/upload"+objects && r.Method == http.MethodPut:
		g.resume(w, r, body)
	case path == objects && r.Method == http.MethodGet:
		g.list(w, q)
	case strings.HasPrefix(path, objects+"/"):
		key, _ := url.PathUnescape(strings.TrimPrefix(path, objects+"/"))
		o, ok := g.objects[key]
		switch {
		case !ok || q.Has("generation") && q.Get("generation") != o.Generation:
			googleError(w, http.StatusNotFound, "No such object: bucket/"+key)
		case r.Method == http.MethodDelete:
			delete(g.objects, key)
			w.WriteHeader(http.StatusNoContent)
		case q.Get("alt") == "media":
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.data))
		default:
			_ = json.NewEncoder(w).Encode(o)
		}
	default:
		googleError(w, http.StatusNotFound, "The specified bucket does not exist.")
	}
}

// upload takes an object by one request, or starts a resumable upload.
func (g *googleServer) upload(w http.ResponseWriter, r *http.Request, body []byte) {
	var about googleObject
	if r.URL.Query().Get("uploadType") == "resumable" {
		_ = json.Unmarshal(body, &about)
		if g.refused(w, r, about.Name) {
			return
		}
		id := fmt.Sprint(len(g.sessions))
		g.sessions[id] = &googleSession{about: about}
		w.Header().Set("Location", "http://"+r.Host+r.URL.Path+"?ifGenerationMatch=0&upload_id="+id)
		return
	}
	_, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	var texts [][]byte
	for {
		part, err := parts.NextPart()
		if err != nil {
			break
		}
		text, _ := io.ReadAll(part)
		texts = append(texts, text)
	}
	if len(texts) != 2 || json.Unmarshal(texts[0], &about) != nil || about.CRC32C != googleSum(texts[1]) {
		googleError(w, http.StatusBadRequest, "The parts or their checksum are wrong.")
		return
	}
	if !g.refused(w, r, about.Name) {
		g.store(about, texts[1])
		_ = json.NewEncoder(w).Encode(g.objects[about.Name])
	}
}

func (g *googleServer) refused(w http.ResponseWriter, r *http.Request, key string) bool {
	_, there := g.objects[key]
	if there = there && r.URL.Query().Get("ifGenerationMatch") == "0"; there {
		googleError(w, http.StatusPreconditionFailed, "At least one of the pre-conditions you specified did not hold.")
	}
	return there
}

// resume accepts a part of a resumable upload, or returns how much of it has arrived.
func (g *googleServer) resume(w http.ResponseWriter, r *http.Request, body []byte) {
	s := g.sessions[r.URL.Query().Get("upload_id")]
	if s == nil {
		googleError(w, http.StatusNotFound, "There is no such upload.")
		return
	}
	content := strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes ")
	place, total, _ := strings.Cut(content, "/")
	if from, _, ok := strings.Cut(place, "-"); ok {
		n, _ := strconv.Atoi(from)
		if n > len(s.data) || len(body) == 0 {
			googleError(w, http.StatusBadRequest, "The part does not follow the last one.")
			return
		}
		s.data = append(s.data[:n], body...)
	}
	if total == strconv.Itoa(len(s.data)) && !s.done {
		if g.refused(w, r, s.about.Name) {
			return
		}
		if r.Header.Get("X-Goog-Hash") != "crc32c="+googleSum(s.data) {
			googleError(w, http.StatusBadRequest, "The checksum is wrong.")
			return
		}
		g.store(s.about, s.data)
		s.done = true
	}
	if s.done {
		_ = json.NewEncoder(w).Encode(g.objects[s.about.Name])
		return
	}
	if len(s.data) > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(s.data)-1))
	}
	w.WriteHeader(http.StatusPermanentRedirect)
}

func (g *googleServer) list(w http.ResponseWriter, q url.Values) {
	var answer struct {
		Items         []googleObject `json:"items"`
		NextPageToken string         `json:"nextPageToken,omitempty"`
	}
	most, _ := strconv.Atoi(q.Get("maxResults"))
	for _, key := range slices.Sorted(maps.Keys(g.objects)) {
		if !strings.HasPrefix(key, q.Get("prefix")) || key <= q.Get("pageToken") {
			continue
		}
		if len(answer.Items) == most {
			answer.NextPageToken = answer.Items[most-1].Name
			break
		}
		answer.Items = append(answer.Items, g.objects[key])
	}
	_ = json.NewEncoder(w).Encode(answer)
}
