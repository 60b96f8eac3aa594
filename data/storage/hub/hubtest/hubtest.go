// Package hubtest provides a hub of datasets for tests, in this process.
package hubtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Hub is a hub that the test's environment points to.
type Hub struct {
	// Token, if not "", is the login that every dataset needs.
	Token string

	mu      sync.Mutex
	commits map[string]map[string]string // contents by paths, by ORG/NAME/COMMIT
	heads   map[string]string            // commits by ORG/NAME@REVISION
	cdn     *httptest.Server
	reads   int
}

// New starts a hub, and sets HF_ENDPOINT for the test.
func New(t *testing.T) *Hub {
	h := &Hub{commits: map[string]map[string]string{}, heads: map[string]string{}}
	h.cdn = httptest.NewServer(http.HandlerFunc(h.content))
	server := httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(func() {
		server.Close()
		h.cdn.Close()
	})
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_HUB_OFFLINE", "")
	return h
}

// Commit makes these files, by their paths, the only files of a dataset's revision. It returns the commit.
func (h *Hub) Commit(dataset, revision string, files map[string]string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%q %q\n", name, files[name])
	}
	commit := hex.EncodeToString(sum.Sum(nil))[:40]
	h.commits[dataset+"/"+commit] = files
	h.heads[dataset+"@"+revision], h.heads[dataset+"@"+commit] = commit, commit
	return commit
}

// Reads counts the answers with content.
func (h *Hub) Reads() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reads
}

// serve answers as the hub does: files of a commit are on a different host, which must not get the login.
func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	refuse := func(code int, why string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error": %q}`, why)
	}
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		refuse(http.StatusUnauthorized, "Invalid username or password.")
		return
	}
	path := r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, "/api/datasets/"); ok {
		dataset, revision, _ := strings.Cut(rest, "/revision/")
		revision, _ = url.PathUnescape(revision)
		commit, ok := h.heads[dataset+"@"+revision]
		if !ok {
			refuse(http.StatusNotFound, "Repository not found")
			return
		}
		_ = json.NewEncoder(w).Encode(h.info(dataset, commit))
		return
	}
	if rest, ok := strings.CutPrefix(path, "/datasets/"); ok && strings.Contains(rest, "/resolve/") {
		// the same server under a different host name
		elsewhere := strings.Replace(h.cdn.URL, "127.0.0.1", "localhost", 1)
		http.Redirect(w, r, elsewhere+"/"+rest, http.StatusFound)
		return
	}
	refuse(http.StatusNotFound, "Sorry, we can't find the page you are looking for.")
}

// info describes a commit: large files are the ones with a Git LFS digest.
func (h *Hub) info(dataset, commit string) any {
	type lfs struct {
		SHA256 string `json:"sha256"`
		Size   int    `json:"size"`
	}
	type sibling struct {
		Name string `json:"rfilename"`
		Size int    `json:"size"`
		Blob string `json:"blobId"`
		LFS  *lfs   `json:"lfs,omitempty"`
	}
	var siblings []sibling
	for name, text := range h.commits[dataset+"/"+commit] {
		sum := sha256.Sum256([]byte(text))
		s := sibling{Name: name, Size: len(text), Blob: hex.EncodeToString(sum[:20])}
		if len(text) > 100 {
			s.LFS = &lfs{hex.EncodeToString(sum[:]), len(text)}
		}
		siblings = append(siblings, s)
	}
	return map[string]any{"id": dataset, "sha": commit, "siblings": siblings}
}

// content answers like the servers that the hub redirects to.
func (h *Hub) content(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dataset, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/resolve/")
	commit, name, _ := strings.Cut(rest, "/")
	text, ok := h.commits[dataset+"/"+commit][name]
	if !ok || r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	h.reads++
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(text)))
}
