package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/vfs"
)

var writeAnew = flag.Bool("write", false, "write the manifests of deploy, or what docs/recipes.md prints, anew")

// Manifests by their files in deploy. Those of testdata are for deploy/validate, which holds all of them to what
// clusters take.
var written = map[string][]string{
	"k8s/indexed-job.yaml": {"k8s", "-m", "s3://my-bucket/models/SmolLM2-135M-Instruct/", "-i",
		"s3://my-bucket/prompts/", "-o", "s3://my-bucket/completions/", "--secret", "quire-storage"},
	"k8s/tpu-jobset.yaml": {"gke-tpu", "--topology", "v5e:1x1", "-m", "gs://my-bucket/models/Llama-3.2-1B-Instruct/",
		"--dtype", "bf16", "-i", "gs://my-bucket/prompts/", "-o", "gs://my-bucket/completions/"},
	"k8s/tpu-slice-jobset.yaml": {"gke-tpu", "--topology", "v5e:4x4", "-m",
		"gs://my-bucket/models/Llama-3.1-70B-Instruct/", "--dtype", "bf16", "-i", "gs://my-bucket/prompts/",
		"-o", "gs://my-bucket/completions/"},
	"slurm/quire.sbatch": {"slurm", "-m", "/shared/models/SmolLM2-135M-Instruct", "-i", "/shared/prompts/*.parquet",
		"-o", "/shared/completions"},
	"testdata/cuda.yaml": {"k8s", "--name", "on", "--namespace", "123", "--image",
		"registry.example.com:5000/team/quire@sha256:" +
			"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "--workers", "100", "--backend",
		"xla:cuda", "--mesh", "tp=2,dp=2", "--cpus", "4", "--memory", "64Gi", "--service-account", "yes", "--secret",
		"a.b", "--secret", "null", "-m", "hf://Qwen/Qwen3-8B", "-i", "s3://bucket/in/*.parquet", "-o",
		"s3://bucket/out"},
	"testdata/quoted.yaml": {"k8s", "--workers", "1", "--claim", "data:/data", "--claim", "more.data:/more data",
		"--service-account", "true", "-m", "smollm2", "-i", "/data/a b'\"#: {}.jsonl", "-i", "/more data/*", "-o",
		"/data/out", "--system", "Say \"$(HOME)\" or $HOME: 5 $.\n\tThen 'stop' # now\r\x1b\u2028\x7f\U0001f642",
		"--stop", "\n", "--stop", "- a: [b]", "--regex", `\d+\s"`, "--logit-bias", `{"5": -1.5, "12": 3}`,
		"--chat-template", "/data/t.jinja"},
	"testdata/tpu-host.yaml": {"gke-tpu", "--topology", "v6e:2x4", "--name", "big", "--workers", "3", "--namespace",
		"team", "--service-account", "reader", "--tp", "4", "--dp", "2", "--call-timeout", "1h", "-m", "hf://a/b",
		"-i", "gs://b/in", "-o", "gs://b/out"},
	"testdata/tpu7x.yaml": {"gke-tpu", "--topology", "tpu7x:2x2x1", "--workers", "2", "-m", "hf://a/b", "-i",
		"gs://b/in", "-o", "gs://b/out"},
	"testdata/tpu-slices.yaml": {"gke-tpu", "--topology", "v5p:2x2x4", "--name", "big", "--workers", "3", "--secret",
		"hub", "--claim", "cache:/models", "-m", "/models/big", "-i", "gs://b/in", "-o", "gs://b/out", "-n", "4"},
	"testdata/hosts.sbatch": {"slurm", "--name", "big_1.b", "--workers", "2", "--num-processes", "4", "--tp", "8",
		"--cpus", "64", "--memory", "512G", "--time", "2-00:00:00", "--partition", "a,b", "--account", "me@lab", "-m",
		"/models/big", "-i", "in 'quoted'/*.jsonl", "-o", "out\nof $HOME"},
	"testdata/cuda.sbatch": {"slurm", "--backend", "xla:cuda", "--tp", "4", "-m", "/models/big", "-i", "in.jsonl", "-o",
		"out"},
}

// The manifests of deploy are those that the command prints: go test ./cmd/sample -run TestManifests -write
func TestManifests(t *testing.T) {
	for name, args := range written {
		var printed bytes.Buffer
		if code := sampleMain(append([]string{"deploy"}, args...), &cli.Environment{Stdout: &printed, Stderr: os.Stderr,
			Models: fakeModels{}, FS: vfs.OS}); code != cli.ExitOK {
			t.Errorf("%s: sample deploy %q ends with %d", name, args, code)
			continue
		}
		path := filepath.Join("..", "..", "deploy", name)
		if *writeAnew {
			if err := os.WriteFile(path, printed.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, printed.Bytes()) {
			t.Errorf("%s is not what sample deploy %q prints (%v); -write writes it", name, args, err)
		}
	}
}

// What a manifest runs is the job that its command line says: the same flags give "sample run" the same job.
func TestFlagsOfManifests(t *testing.T) {
	schema := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(schema, []byte(`{"type": "object"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	paths := []string{"-m", "smollm2", "-i", "s3://b/in$(X) $$", "-i", "s3://b/é", "-o", "gs://b/out"}
	for _, flags := range [][]string{
		{},
		{"--temperature", "0.1", "-n", "3", "--seed", "18446744073709551615", "--ignore-eos", "--top-logprobs", "2"},
		{"--stop", "a", "--stop", "$(b)\n", "--stop-token-ids", "1,2", "--columns", "cumulative_logprob"},
		{"--logit-bias", `{"7": 0.1, "70": -100}`, "--json-schema", schema, "--features", "biases"},
		{"--choice", "a, b", "--choice", `"c"`, "--kv-memory", "2GB", "--host-kv-memory", "1GiB"},
		{"--regex", `[a-z]+\$`, "--mesh", "tp=2,dp=3", "--zero-pages", "--prefix-cache", "off"},
		{"--dry-multiplier", "0.5", "--dry-sequence-breakers", "\n", "--template", "{{ a }}: '{{ b }}'\n"},
		{"--tools", `[{"type": "function", "function": {"name": "f", "parameters": {}}}]`, "--part-rows", "7"},
	} {
		flags = append(flags, paths...)
		var printed bytes.Buffer
		if code := sampleMain(append([]string{"deploy", "k8s"}, flags...), &cli.Environment{Stdout: &printed,
			Stderr: os.Stderr, Models: fakeModels{}, FS: vfs.OS}); code != cli.ExitOK {
			t.Errorf("%q: exit code %d", flags, code)
			continue
		}
		var job struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := yaml.Unmarshal(printed.Bytes(), &job); err != nil {
			t.Fatal(err)
		}
		args := job.Spec.Template.Spec.Containers[0].Args
		for i, arg := range args { // as Kubernetes does
			args[i] = strings.ReplaceAll(arg, "$$", "$")
		}
		t.Setenv("JOB_COMPLETION_INDEX", "1")
		t.Setenv("QUIRE_SHARD_COUNT", "8")
		if want, got := specOf(t, flags), specOf(t, args[1:]); !reflect.DeepEqual(want, got) {
			t.Errorf("%q became %q:\n%+v, want\n%+v", flags, args, got, want)
		}
	}
}

// specOf is the job of a command line of "sample run".
func specOf(t *testing.T, args []string) spec.Spec {
	t.Helper()
	var o jobflags.Options
	f := cli.NewFlags("run")
	o.Define(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := o.Prepare(f, f.Set.Args()); err != nil {
		t.Fatal(err)
	}
	// What a flag of a part of it gives, the flag of the whole gives in a manifest.
	o.Spec.Given = slices.DeleteFunc(o.Spec.Given, func(name string) bool { return name == "structured_outputs" })
	if len(o.Spec.Given) == 0 {
		o.Spec.Given = nil
	}
	return o.Spec
}
