package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// fakeBucket starts an S3 server with an empty bucket; each of its answers of a number that every divides is an error.
func fakeBucket(t *testing.T, every int64) (url func(key string) string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "quire")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
	backend := s3mem.New()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	if err := backend.CreateBucket(name); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	if testing.Short() { // each error is waited for
		every *= 40
	}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := asked.Add(1); every > 0 && n%every == 0 {
			io.Copy(io.Discard, r.Body)
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return func(key string) string {
		return "s3://" + name + "/" + key + "?endpoint=" + server.URL +
			"&use_path_style=true&hostname_immutable=true&region=us-east-1"
	}
}

func put(t *testing.T, url, text string) {
	t.Helper()
	if err := storage.Put(t.Context(), url, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// sampleFake runs a command line on the fake engine.
func sampleFake(args ...string) (code int, output string) {
	var out bytes.Buffer
	code = sampleMain(args, &cli.Environment{Stdout: &out, Stderr: &out, Models: fakeModels{},
		FS: vfs.OS})
	return code, out.String()
}

// outputOf is the files of an output folder, here or elsewhere, but for the job's own.
func outputOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := storage.List(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, info := range files {
		path := storage.Path(info.Name)
		if strings.Contains(path, "/_job/") {
			continue
		}
		f, err := storage.Open(t.Context(), info.Name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f.Reader())
		if err != nil {
			t.Fatal(err)
		}
		all[strings.Trim(strings.TrimPrefix(path, strings.TrimSuffix(storage.Path(folder), "/")), "/")] = string(text)
	}
	return all
}

func same(a, b map[string]string) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d files, want %d", len(a), len(b))
	}
	for name := range a {
		if a[name] != b[name] {
			return fmt.Errorf("%s differs", name)
		}
	}
	return nil
}

// show prints objects as it prints files: parts of a folder, one of them, and an input.
func TestShowObjects(t *testing.T) {
	url := fakeBucket(t, 0)
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	model := filepath.Join(dir, "m.fake")
	if err := os.WriteFile(model, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	put(t, url("in.jsonl"), "{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\n")
	for _, format := range []string{"jsonl", "parquet"} {
		if code, text := sampleFake("run", "-m", model, "-i", url("in.jsonl"), "-o", url("out"), "--format", format,
			"--part-rows", "1", "--new"); code != 0 {
			t.Fatal(text)
		}
		for name, want := range map[string]string{
			"out": "0:two", "out/part-00000." + format: "0:one",
			"in.jsonl": "in.jsonl has 2 prompts and no completions", "none": "there is no such file or folder",
		} {
			_, text := sampleFake("show", url(name))
			if !strings.Contains(text, want) || strings.Contains(text, "endpoint") {
				t.Errorf("show %s: %s", name, text)
			}
		}
	}
}

// A job whose input and output are objects gives the files that it gives here, through errors of the server; a machine
// that comes after another one does what is left; nothing shows the URL's parameters. So it is with parts in folders.
func TestObjectsInAndOut(t *testing.T) {
	url := fakeBucket(t, 9)
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	model := filepath.Join(dir, "m.fake")
	var rows [2]strings.Builder
	for i := range 60 {
		fmt.Fprintf(&rows[i%2], "{\"prompt\": \"row %d\"}\n", i)
	}
	for i, name := range []string{"in/half=0/a.jsonl", "in/half=1/b.jsonl"} {
		put(t, url(name), rows[i].String())
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(rows[i].String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(model, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for format, folder := range map[string]string{"jsonl": "", "parquet": "half=0/"} {
		run := func(in, out string, more ...string) (int, string) {
			return sampleFake(append([]string{"run", "-m", model, "-i", in, "-o", out, "--format", format,
				"--part-rows", "20", "--progress", "none", "-n", "2",
				fmt.Sprintf("--keep-partitions=%t", folder != "")}, more...)...)
		}
		local := filepath.Join(dir, "out-"+format)
		if code, text := run(filepath.Join(dir, "in"), local); code != 0 {
			t.Fatal(text)
		}
		want := outputOf(t, local)
		if want[folder+"part-00001."+format] == "" {
			t.Fatalf("there is no part 1 in %q", folder)
		}
		remote := url("out-" + format + "/")
		code, text := run(url("in"), remote)
		if code != 0 || strings.Contains(text, "endpoint=") ||
			!strings.Contains(text, "s3://testobjectsinandout/out-"+format) {
			t.Fatal(code, text)
		}
		if err := same(outputOf(t, remote), want); err != nil {
			t.Error(format, err)
		}
		if code, text := run(url("in"), remote); code != 0 || !strings.Contains(text, "is finished") {
			t.Error(code, text)
		}
		code, text = run(url("in"), remote, "--temperature", "0")
		if code != 1 || !strings.Contains(text, "The job's state is in "+filepath.Join(dir, "cache", "jobs")) {
			t.Error(code, text)
		}

		// The machine is gone, and with it one part that had not been published.
		if err := storage.Remove(context.Background(), storage.Join(remote, folder+"part-00001."+format)); err != nil {
			t.Fatal(err)
		}
		if code, text := run(url("in"), remote, "--work-dir", filepath.Join(dir, "other-"+format)); code != 0 ||
			!strings.Contains(text, "60") {
			t.Error(code, text)
		}
		if err := same(outputOf(t, remote), want); err != nil {
			t.Error("gone on elsewhere:", format, err)
		}
		// An audit reads it there, and changes nothing.
		audit := func(want int, of string) {
			before, _ := storage.List(t.Context(), remote)
			code, text := sampleFake("audit", remote, "-m", model, "-i", url("in"), "-q")
			if code != want || !strings.Contains(text, of) || strings.Contains(text, "endpoint=") {
				t.Error(code, text)
			}
			if after, err := storage.List(t.Context(), remote); err != nil || !slices.Equal(before, after) {
				t.Errorf("the audit changed %v to %v: %v", before, after, err)
			}
		}
		audit(0, " (100 %), 0 differ")
		code, text = run(filepath.Join(dir, "in"), filepath.Join(dir, "copied-"+format), "--reuse", remote)
		if code != 0 || !strings.Contains(text, "copied       120 completions of other outputs") {
			t.Error(code, text)
		}
		if format == "jsonl" {
			part := storage.Join(remote, "part-00001.jsonl")
			for _, text := range []string{strings.Replace(want["part-00001.jsonl"], "seed", "sead", 1),
				want["part-00001.jsonl"]} {
				if err := storage.Remove(t.Context(), part); err != nil {
					t.Fatal(err)
				}
				put(t, part, text)
				if text != want["part-00001.jsonl"] {
					audit(cli.ExitDamaged, " (100 %), 1 differ")
				}
			}
		}
		// Another job does not come between, neither from here nor from elsewhere.
		for _, work := range []string{filepath.Join(dir, "third-"+format), filepath.Join(dir, "other-"+format)} {
			if code, text := run(url("in"), remote, "--seed", "7", "--work-dir", work); code != cli.ExitFailure ||
				!strings.Contains(text, "seed is 7") {
				t.Error(code, text)
			}
		}
		if code, text := run(url("in"), remote, "--seed", "7", "--new"); code != 0 {
			t.Error(code, text)
		}
		if same(outputOf(t, remote), want) == nil && format == "parquet" { // its footer has the seed
			t.Error("--new kept the old files")
		}
	}
	// What is kept of the jobs has no parameters in it.
	for _, root := range []string{dir, url("out-jsonl"), url("out-parquet")} {
		files, err := storage.List(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range files {
			f, err := storage.Open(t.Context(), info.Name)
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := io.ReadAll(f.Reader()); bytes.Contains(text, []byte("use_path_style")) {
				t.Errorf("%s has the URL's parameters", storage.Redact(info.Name))
			}
		}
	}
}

// Models are fetched from objects once, by their folder or as one file.
func TestModelFromObjects(t *testing.T) {
	url := fakeBucket(t, 0)
	t.Setenv("QUIRE_CACHE", t.TempDir())
	models, err := filepath.Glob(filepath.Join("..", "..", "testdata", "models", "*", "config.json"))
	if err != nil || len(models) == 0 {
		t.Fatal(models, err)
	}
	from := filepath.Dir(models[0])
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		put(t, url("m/"+e.Name()), string(text))
	}
	identify := func(model string) (process.Identity, error) {
		spec := spec.Default()
		spec.Model, spec.Inputs, spec.Output = model, []string{"in"}, "out"
		task, err := batch.NewTask(spec, process.Options{})
		if err != nil {
			return process.Identity{}, err
		}
		return task.Identify(t.Context())
	}
	local, err := identify(from)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := identify(url("m/"))
	if err != nil || !reflect.DeepEqual(remote, local) {
		t.Errorf("the model from objects is %v, want %v: %v", remote, local, err)
	}
	if _, err := identify(url("nothing")); err == nil ||
		strings.Contains(err.Error(), "endpoint") {
		t.Error(err)
	}
}
