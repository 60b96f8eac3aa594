package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/quire/quire/models/arch"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub serves folders as repositories; broken names a file whose connection breaks half-way.
type fakeHub struct {
	repos    map[string]string // org/name to folder
	broken   string
	requests int
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.requests++
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api/models/"); ok {
		repo, revision, _ := strings.Cut(rest, "/revision/")
		dir, ok := h.repos[repo]
		if !ok || revision != "main" && revision != commit {
			http.Error(w, "Repository not found", http.StatusNotFound)
			return
		}
		var siblings []map[string]any
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			info, _ := e.Info()
			siblings = append(siblings, map[string]any{"rfilename": e.Name(), "size": info.Size()})
		}
		json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
		return
	}
	repo, file, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/resolve/"+commit+"/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", strings.ReplaceAll(repo+file, "/", "-")))
	if r.Method == http.MethodGet && file == h.broken {
		w.Header().Set("Content-Length", "1000000")
		w.Write(make([]byte, 1000)) // and the handler's return closes the connection
		return
	}
	http.ServeFile(w, r, path.Join(h.repos[repo], file))
}

// serveHub points Open at a fake hub and an empty cache. The function it returns takes the network away.
func serveHub(t *testing.T, h *fakeHub) (unplug func()) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	t.Setenv("HF_HUB_OFFLINE", "")
	t.Setenv("HF_TOKEN", "")
	return server.Close
}

func absolute(t *testing.T, p string) string {
	t.Helper()
	abs, err := filepath.Abs(p)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func TestHub(t *testing.T) {
	h := &fakeHub{repos: map[string]string{
		"org/single":  absolute(t, filepath.Join(tinyModels, "qwen3")),
		"org/sharded": absolute(t, filepath.Join(tinyModels, "llama3-sharded")),
		"org/files":   absolute(t, "testdata"),
		"org/split":   absolute(t, filepath.Join("testdata", "split"))}}
	unplug := serveHub(t, h)
	refs := []string{"hf://org/single", "hf://org/sharded@main", "hf://org/sharded@" + commit,
		"hf://org/files/qwen3.gguf", "hf://org/split/qwen3-00002-of-00003.gguf"}
	prints := map[string]string{}
	for _, ref := range refs {
		c := openTest(t, ref)
		if _, err := c.Validate(); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		prints[ref] = c.FingerPrint()
	}
	if local := openTest(t, filepath.Join(tinyModels, "qwen3")); prints["hf://org/single"] != local.FingerPrint() {
		t.Error("the fingerprint depends on where the model lies")
	}
	before := h.requests
	openTest(t, "hf://org/sharded@"+commit)
	if h.requests != before {
		t.Errorf("a cached commit took %d requests", h.requests-before)
	}
	unplug()
	for range 2 { // the failed attempt must not spoil the cache for the next one
		for _, ref := range refs {
			if c := openTest(t, ref); c.FingerPrint() != prints[ref] {
				t.Errorf("%s is another model without the network", ref)
			}
		}
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	openTest(t, "hf://org/single")
	if _, err := Open("hf://org/other"); !errors.Is(err, ErrNotFetched) ||
		!strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Errorf("offline and not cached gave %v", err)
	}
}

func TestHubWithoutNetwork(t *testing.T) {
	unplug := serveHub(t, &fakeHub{})
	unplug()
	_, err := Open("hf://org/name")
	if !errors.Is(err, ErrNotFetched) || !strings.Contains(err.Error(), "hf://org/name") ||
		!strings.Contains(err.Error(), os.Getenv("HF_HUB_CACHE")) {
		t.Errorf("the error should name the model and the cache: %v", err)
	}
}

func TestHubRefusals(t *testing.T) {
	gpt2 := t.TempDir()
	write(t, filepath.Join(gpt2, configFile), base(map[string]any{"architectures": []string{"GPT2LMHeadModel"}}))
	write(t, filepath.Join(gpt2, weightsFile), nil)
	h := &fakeHub{repos: map[string]string{"org/gpt2": gpt2, "org/files": absolute(t, "testdata"),
		"org/single": absolute(t, filepath.Join(tinyModels, "qwen3")),
		"org/split":  absolute(t, filepath.Join("testdata", "split"))}}
	serveHub(t, h)
	for ref, want := range map[string]string{
		"hf://org/gpt2":                            `"GPT2LMHeadModel" is not supported`,
		"hf://org/files":                           "name one of its GGUF files, e.g. hf://org/files/",
		"hf://org/files/other.gguf":                "no file other.gguf",
		"hf://org/split/qwen3-00001-of-00004.gguf": "no file qwen3-00001-of-00004.gguf",
		"hf://org/unknown":                         "404",
		"hf://org":                                 "not of the form",
		"hf://org/name/file.bin":                   "not of the form",
		"hf://../name":                             "not of the form",
		"hf://org/name@../x":                       "not of the form",
		"hf://org/name/../x.gguf":                  "not of the form",
	} {
		if _, err := Open(ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error should say %q: %v", ref, want, err)
		}
	}
	h.broken = weightsFile
	if _, err := Open("hf://org/single"); !errors.Is(err, ErrNotFetched) ||
		!strings.Contains(err.Error(), "broke off") {
		t.Errorf("a broken connection gave %v", err)
	}
	h.broken = "" // and the next attempt gets it
	if _, err := openTest(t, "hf://org/single").Read(arch.NameFinalNorm, dtypes.BFloat16); err != nil {
		t.Error(err)
	}
}
