package setup

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// rerouted sends every request to a server on loopback, whatever host it is for.
type rerouted struct{ to *url.URL }

func (r rerouted) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = r.to.Scheme, r.to.Host
	return http.DefaultTransport.RoundTrip(req)
}

// pythonIndex serves packages as the index that go-xla's installer asks does: a JSON page each, and their wheels.
type pythonIndex struct {
	t       *testing.T
	mux     *http.ServeMux
	fetched map[string]int
}

func newPythonIndex(t *testing.T) (*pythonIndex, *installer) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("accelerators are for linux on x86-64")
	}
	ix := &pythonIndex{t, http.NewServeMux(), map[string]int{}}
	server := httptest.NewServer(ix.mux)
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	isolate(t)
	in := testInstaller(t, nil)
	in.client = &http.Client{Transport: rerouted{to}}
	old := http.DefaultClient.Transport // what the library asks with
	http.DefaultClient.Transport = rerouted{to}
	t.Cleanup(func() { http.DefaultClient.Transport = old })
	return ix, in
}

// add serves a package with one wheel in each version, which holds the files.
func (ix *pythonIndex) add(name string, requires []string, files map[string]string, versions ...string) {
	ix.t.Helper()
	var releases []string
	for _, version := range versions {
		var wheel bytes.Buffer
		z := zip.NewWriter(&wheel)
		for path, text := range files {
			w, err := z.Create(path)
			if err != nil {
				ix.t.Fatal(err)
			}
			fmt.Fprint(w, text+version)
		}
		z.Close()
		file := fmt.Sprintf("%s-%s-py3-none-manylinux_2_31_x86_64.whl", name, version)
		releases = append(releases,
			fmt.Sprintf(
				`%q:[{"filename":"%s-%s-py3-none-win_amd64.whl"},{"filename":%q,"url":"../../files/%s","digests":{"sha256":%q}}]`,
				version, name, version, file, file, digest(wheel.Bytes())))
		ix.mux.HandleFunc("/files/"+file, func(w http.ResponseWriter, r *http.Request) {
			ix.fetched[file]++
			w.Write(wheel.Bytes())
		})
	}
	list := ""
	if len(requires) > 0 {
		list = `"` + strings.Join(requires, `","`) + `"`
	}
	ix.mux.HandleFunc("/pypi/"+name+"/json", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w,
			`{"info":{"name":%q,"version":%q,"project_url":"https://index.example/project/%s/","requires_dist":[%s]},"releases":{%s}}`,
			name, versions[len(versions)-1], name, list, strings.Join(releases, ","))
	})
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

func TestFetchTPU(t *testing.T) {
	ix, in := newPythonIndex(t)
	ix.add("libtpu", nil, map[string]string{"libtpu/libtpu.so": "tpu "}, "0.0.50", "0.0.51", "0.0.52")
	path, err := in.ensureAccelerator(t.Context(), "tpu")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "tpu 0.0.51")
	if again, err := EnsurePlugin(t.Context(), "tpu", nil); err != nil || again != path || len(ix.fetched) != 1 {
		t.Errorf("again: %q, %v, fetched %v", again, err, ix.fetched)
	}
}

// The libraries come first, each at the highest version that fits; the plugin last; what is unpacked is not fetched
// again.
func TestFetchCUDA(t *testing.T) {
	ix, in := newPythonIndex(t)
	ix.add("jax-cuda13-plugin", []string{"nvidia-cublas<14,>=13.0", "nvidia-nvcc>=13.0; extra == 'with-cuda'",
		"numpy>=2"},
		map[string]string{"x": ""}, "0.11.2")
	ix.add("nvidia-cublas", nil, map[string]string{"nvidia/cu13/lib/libcublas.so.13": "blas ", "other/file": ""},
		"12.9", "13.0", "13.2", "14.0")
	_, err := in.ensureAccelerator(t.Context(), "cuda")
	if !isMissing(err) || !strings.Contains(err.Error(), "nvidia-nvcc") {
		t.Fatalf("without a library: %v", err)
	}
	ix.add("nvidia-nvcc", nil, map[string]string{"nvidia/cu13/bin/ptxas": "ptxas "}, "13.0", "13.1rc1")
	ix.add("jax-cuda13-pjrt", nil, map[string]string{"jax_plugins/xla_cuda13/xla_cuda_plugin.so": "cuda "}, "0.11.2",
		"0.12.0")
	path, err := in.ensureAccelerator(t.Context(), "cuda")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "cuda 0.11.2")
	nvidia := filepath.Dir(path)
	wantFile(t, filepath.Join(nvidia, "bin", "ptxas"), "ptxas 13.0")
	wantFile(t, filepath.Join(nvidia, "..", "..", "libcublas.so.13"), "blas 13.2")
	// What compiles only is all there then.
	if again, err := EnsurePlugin(t.Context(), CUDACompile, nil); err != nil || again != path {
		t.Errorf("to compile: %q, %v", again, err)
	}
	for file, n := range ix.fetched {
		if n != 1 {
			t.Errorf("%s was fetched %d times", file, n)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(in.root, "downloads", "*")); len(ix.fetched) != 3 || len(left) > 0 {
		t.Errorf("fetched %v, left %v", ix.fetched, left)
	}
}

// To compile it takes the plugin and two of the libraries.
func TestFetchCUDACompile(t *testing.T) {
	ix, in := newPythonIndex(t)
	ix.add("jax-cuda13-plugin", []string{"nvidia-cublas>=13.0", "nvidia-cuda-nvcc>=13.0; extra == 'with-cuda'",
		"nvidia-nvvm>=13.0"}, map[string]string{"x": ""}, "0.11.2")
	ix.add("nvidia-cuda-nvcc", nil, map[string]string{"nvidia/cu13/bin/ptxas": "ptxas "}, "13.0")
	ix.add("nvidia-nvvm", nil, map[string]string{"nvidia/cu13/nvvm/libdevice/libdevice.10.bc": "device "}, "13.0")
	ix.add("jax-cuda13-pjrt", nil, map[string]string{"jax_plugins/xla_cuda13/xla_cuda_plugin.so": "cuda "}, "0.11.2")
	path, err := in.ensureAccelerator(t.Context(), CUDACompile)
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "cuda 0.11.2")
	wantFile(t, filepath.Join(filepath.Dir(path), "bin", "ptxas"), "ptxas 13.0")
	wantFile(t, filepath.Join(filepath.Dir(path), "cu13", "nvvm", "libdevice", "libdevice.10.bc"), "device 13.0")
	if found, err := FindPlugin(CUDACompile); err != nil || found != path {
		t.Errorf("found %q, %v", found, err)
	}
	if _, err := FindPlugin("cuda"); !isMissing(err) {
		t.Errorf("it is no plugin to run with: %v", err)
	}
	root, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	own := touch(t, filepath.Join(root, "plugins", "cuda-local", "mine.so"))
	if found, err := FindPlugin(CUDACompile); err != nil || found != own {
		t.Errorf("one to run with is better: found %q, %v", found, err)
	}
}
