package load

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/decoder"
)

// countedBucket is a store that has a model's files, and counts the bytes of objects that it serves.
func countedBucket(t *testing.T, files ...string) (url func(key string) string, served *atomic.Int64) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "quire")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
	backend := s3mem.New()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			_, err = backend.PutObject("models", "m/"+filepath.Base(file), map[string]string{}, bytes.NewReader(data),
				int64(len(data)), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fake := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	served = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w = counted{w, served}
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return func(key string) string {
		return "s3://models/" + key + "?endpoint=" + server.URL +
			"&use_path_style=true&hostname_immutable=true&region=us-east-1"
	}, served
}

// countedHub is a hub with the repository org/m, which has a model's files, and counts the bytes of ranges that it
// serves; url names the repository or a GGUF file of it.
func countedHub(t *testing.T, files ...string) (url func(key string) string, served *atomic.Int64) {
	t.Helper()
	return startHub(t, true, files...)
}

// startHub starts a hub that sends ranges, or whole files only.
func startHub(t *testing.T, ranges bool, files ...string) (url func(key string) string, served *atomic.Int64) {
	t.Helper()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	served = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/models/org/m/revision/") {
			var siblings []map[string]any
			for _, file := range files {
				siblings = append(siblings, map[string]any{"rfilename": filepath.Base(file)})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
			return
		}
		name, ok := strings.CutPrefix(r.URL.Path, "/org/m/resolve/"+commit+"/")
		at := slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) == name })
		switch {
		case !ok || at < 0:
			http.NotFound(w, r)
			return
		case !ranges:
			r.Header.Del("Range")
		case r.Header.Get("Range") != "":
			w = counted{w, served}
		case models.IsWeights(name):
			t.Errorf("%s was asked for as a whole", name)
		}
		w.Header().Set("ETag", strconv.Quote(name))
		http.ServeFile(w, r, files[at])
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"HF_ENDPOINT": server.URL, "HF_HUB_CACHE": t.TempDir(), "HF_TOKEN": "",
		"HF_HUB_OFFLINE": ""} {
		t.Setenv(name, value)
	}
	return func(key string) string { return "hf://" + strings.TrimSuffix("org/"+key, "/") }, served
}

// counted counts what is written, before the reader can have it.
type counted struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.bytes.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

// someDevices is the part of a group's devices that a host has.
type someDevices struct {
	compute.Backend
	devices int
	places  []int
}

func (g someDevices) Partitions() int { return g.devices }

func (g someDevices) Places() []int { return g.places }

func (g someDevices) Member(int) (compute.Backend, error) { return g.Backend, nil }

func (g someDevices) Join(parts []compute.Buffer) (compute.Buffer, error) {
	return joinedParts{parts[0], parts}, nil
}

type joinedParts struct {
	compute.Buffer
	all []compute.Buffer
}

// loaded is the elements of all arrays that a host's devices have, by the place of the device.
func loaded(t *testing.T, host someDevices, from *models.Checkpoint) map[int][]any {
	t.Helper()
	byPlace := map[int][]any{}
	for _, a := range decoder.Arrays(from.Config, decoder.Storage{Backend: host, DType: dtypes.BFloat16}) {
		b, err := a.Load(host, 0, from)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range b.(joinedParts).all {
			slice, n := reflect.SliceOf(a.Shape.DType.GoType()), a.Shape.Size()
			flat := reflect.MakeSlice(slice, n, n).Interface()
			if err := part.ToFlatData(flat); err != nil {
				t.Fatal(err)
			}
			byPlace[host.places[i]] = append(byPlace[host.places[i]], flat)
		}
	}
	return byPlace
}

// Hosts that run a model of an object store together each read the weights of their own devices, and no others: what is
// split comes once in all, what every device has comes once for each host.
func TestHostsReadTheirParts(t *testing.T) { hostsReadTheirParts(t, countedBucket) }

// So they do with a model of the hub.
func TestHostsReadTheirPartsOfTheHub(t *testing.T) { hostsReadTheirParts(t, countedHub) }

// A hub that sends no ranges sends whole files.
func TestHubWithoutRanges(t *testing.T) {
	model := testenv.Path("testdata", "models", "llama3-sharded")
	files, err := filepath.Glob(filepath.Join(model, "*"))
	if err != nil {
		t.Fatal(err)
	}
	url, _ := startHub(t, false, files...)
	c, closeAll := openAsHost(t, url("m/"))
	defer closeAll()
	local, err := models.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if c.FingerPrint() != local.FingerPrint() || c.Ref != "hf://org/m" {
		t.Errorf("%s is another model", c.Ref)
	}
}

func hostsReadTheirParts(t *testing.T, store func(t *testing.T, files ...string) (func(string) string, *atomic.Int64)) {
	for _, model := range []string{
		testenv.Path("testdata", "models", "llama3-sharded"), testenv.Path("testdata", "models", "qwen2"),
		testenv.Path("testdata", "models", "olmo2"), testenv.Path("models", "testdata", "qwen2.gguf"),
		testenv.Path("models", "testdata", "split", "qwen3-00002-of-00003.gguf"),
	} {
		t.Run(filepath.Base(model), func(t *testing.T) {
			local, err := models.Open(model)
			if err != nil {
				t.Fatal(err)
			}
			defer local.Close()
			files, name := models.SplitNames(model), "m/"+filepath.Base(model)
			if filepath.Ext(model) == "" {
				if files, err = filepath.Glob(filepath.Join(model, "*")); err != nil {
					t.Fatal(err)
				}
				name = "m/"
			}
			url, served := store(t, files...)
			const devices = 2
			want := loaded(t, someDevices{testenv.Go(t), devices, []int{0, 1}}, local)
			split, whole := sizesOf(t, local, devices)
			var first, weights int64 // bytes that come when the model is opened, and after
			for host := range devices {
				begin := served.Load()
				part, closeAll := openAsHost(t, url(name))
				opened := served.Load()
				got := loaded(t, someDevices{testenv.Go(t), devices, []int{host}}, part)
				first, weights = first+opened-begin, weights+served.Load()-opened
				if !reflect.DeepEqual(got[host], want[host]) {
					t.Errorf("host %d has other weights than with the whole file", host)
				}
				closeAll()
			}
			exact := split + devices*whole
			if filepath.Ext(model) == ".gguf" { // some weights come with its tables
				if first+weights < exact || weights > exact || first > int64(devices*len(files)*40_000) {
					t.Errorf("the hosts read %d bytes and then %d, want %d", first, weights, exact)
				}
			} else if weights != exact {
				t.Errorf("the hosts read %d bytes of weights, want %d of what is split and %d times %d", weights, split,
					devices, whole)
			}
		})
	}
}

// sizesOf is how many bytes of a checkpoint are split between devices, and how many each of them has.
func sizesOf(t *testing.T, c *models.Checkpoint, devices int) (split, whole int64) {
	for tensor := range c.Config.Tensors() {
		element, ok := map[string]int{"F32": 4, "F16": 2, "BF16": 2}[c.Encoding(tensor.Name)]
		if !ok {
			t.Fatalf("%s is stored as %s", tensor.Name, c.Encoding(tensor.Name))
		}
		size := element
		for _, d := range tensor.Shape {
			size *= d
		}
		if tensor.Over == arch.Whole || tensor.Over == arch.ByKVHeads && c.Config.NumKVHeads < devices {
			whole += int64(size)
		} else {
			split += int64(size)
		}
	}
	return split, whole
}

// openAsHost opens a remote model as a host of several does, but that nothing is read for being near.
func openAsHost(t *testing.T, name string) (c *models.Checkpoint, closeAll func()) {
	t.Helper()
	t.Setenv("QUIRE_CACHE", t.TempDir())
	p := &process.Process{Options: process.Options{Messages: io.Discard, PartGap: 1,
		Hosts: &process.Hosts{Processes: 2}}}
	c, err := OpenModel(t.Context(), p, &spec.Job{Spec: spec.Spec{Model: name}})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A split model of an object store is fetched whole, whichever of its files is named; the error of a missing part names
// it.
func TestFetchSplitModel(t *testing.T) {
	files := models.SplitNames(testenv.Path("models", "testdata", "split", "qwen3-00001-of-00003.gguf"))
	open := func(url string) (*models.Checkpoint, error) {
		t.Setenv("QUIRE_CACHE", t.TempDir())
		p := &process.Process{Options: process.Options{Messages: io.Discard}}
		return OpenModel(t.Context(), p, &spec.Job{Spec: spec.Spec{Model: url}})
	}
	url, _ := countedBucket(t, files...)
	c, err := open(url("m/" + filepath.Base(files[1])))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Validate(); err != nil {
		t.Error(err)
	}
	url, _ = countedBucket(t, files[:2]...)
	if _, err = open(url("m/" + filepath.Base(files[0]))); err == nil ||
		!strings.Contains(err.Error(), filepath.Base(files[2])) {
		t.Errorf("without its third part: %v", err)
	}
}
