package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"github.com/quire/quire/deploy"
)

func kubernetes() *deploy.Kubernetes {
	return &deploy.Kubernetes{Job: deploy.Job{Name: "quire", Workers: 2}, Image: "quire:latest"}
}

func slurm() *deploy.Slurm {
	return &deploy.Slurm{Job: deploy.Job{Name: "quire", Workers: 2}, CPUs: 1, Memory: "1G", Time: "1:00:00"}
}

// anyText generates texts that go wrong if something is not quoted.
func anyText() *rapid.Generator[string] {
	pieces := []string{"'", `"`, "\\", "$", "(", ")", "`", "\n", "\r", "\t", " ", ": ", " #", "- ", "{", "}", "[", "]",
		"&", "*", "!", "|", ">", "%", "@", ",", "~", "no", "null", "0x1", "1e3", "-", "=", "é", "🙂", "\x01", "\x1b",
		"\x7f", "\u0085", "\u2028", "\ufeff", "x", "$$", "$(HOME)", "${HOME}", "\\n", "0"}
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "pieces"), "")
	})
}

func anyFlags(t *rapid.T) (flags []deploy.Flag, args []string) {
	for _, value := range rapid.SliceOfN(anyText(), 1, 4).Draw(t, "values") {
		flags = append(flags, deploy.Flag{Name: "system", Value: value})
		args = append(args, "--system="+value)
	}
	return flags, args
}

// A container gets each argument as it was given, whatever is in it, once YAML is read and variables are expanded.
func TestArgumentsOfContainers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := kubernetes()
		flags, want := anyFlags(t)
		k.Flags = flags
		file, err := k.IndexedJob()
		if err != nil {
			t.Fatal(err)
		}
		var job struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := yaml.Unmarshal(file.Text, &job); err != nil {
			t.Fatalf("%v\n%s", err, file.Text)
		}
		args := job.Spec.Template.Spec.Containers[0].Args
		for i, arg := range args {
			args[i] = expanded(arg)
		}
		if got := args[1 : 1+len(want)]; !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// expanded is an argument as Kubernetes gives it to a process that has no variables but HOME.
func expanded(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "$$"):
			b.WriteByte('$')
			i++
		case strings.HasPrefix(rest, "$(HOME)"):
			b.WriteString("/root")
			i += len("$(HOME)") - 1
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// So does a task of Slurm, by bash.
func TestArgumentsOfTasks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"srun": "#!/bin/bash\nexec \"$@\"\n",
		"sample": "#!/bin/bash\nprintf '%s\\0' \"$@\" > \"$ARGS\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := filepath.Join(dir, "args")
	var flags []deploy.Flag
	var want []string
	rapid.Check(t, func(t *rapid.T) { // many texts, one shell
		more, args := anyFlags(t)
		flags, want = append(flags, more...), append(want, args...)
	})
	s := slurm()
	s.Flags = flags
	file, err := s.Script()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", string(file.Text))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ARGS="+args, "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(args)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(text), "\x00")
	if got := got[1 : len(got)-3]; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTopologies(t *testing.T) {
	for text, want := range map[string]deploy.Topology{
		"v5e:1x1":       {Shape: "1x1", Accelerator: "tpu-v5-lite-podslice", Chips: 1, Hosts: 1, Devices: 1},
		"v6e:2x4":       {Shape: "2x4", Accelerator: "tpu-v6e-slice", Chips: 8, Hosts: 1, Devices: 8},
		"v5e:16x16":     {Shape: "16x16", Accelerator: "tpu-v5-lite-podslice", Chips: 256, Hosts: 64, Devices: 256},
		"v4:2x2x1":      {Shape: "2x2x1", Accelerator: "tpu-v4-podslice", Chips: 4, Hosts: 1, Devices: 4},
		"v5p:4x8x12":    {Shape: "4x8x12", Accelerator: "tpu-v5p-slice", Chips: 384, Hosts: 96, Devices: 384},
		"tpu7x:2x2x2":   {Shape: "2x2x2", Accelerator: "tpu7x", Chips: 8, Hosts: 2, Devices: 16},
		"v5e:3x3":       {},
		"v5e:2x2x1":     {},
		"v5p:2x2":       {},
		"v5p:1x2x2":     {},
		"v5p:04x4x4":    {},
		"v5p:4x4x68":    {},
		"v5p:4x4x4x4":   {},
		"v7:2x2":        {},
		"v5e":           {},
		"v5e:-1x-1":     {},
		"v5p:4x4x99999": {},
	} {
		if want.Chips > 0 {
			want.Name = text
		}
		if got, err := deploy.ParseTopology(text); got != want || (err == nil) != (want.Chips > 0) {
			t.Errorf("%s is %+v (%v), want %+v", text, got, err, want)
		}
	}
}

// What a cluster would refuse is an error that names the setting.
func TestRefused(t *testing.T) {
	long := strings.Repeat("a", 300)
	refused := func(setting string, err error) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), "`"+setting+"` ") {
			t.Errorf("%v, but `%s` is wrong", err, setting)
		}
	}
	pods := func(setting string, change func(k *deploy.Kubernetes)) {
		t.Helper()
		k := kubernetes()
		change(k)
		_, err := k.IndexedJob()
		refused(setting, err)
	}
	for _, name := range []string{"", "A", "a b", "a\n", "-a", "a-", "1a", "a.b", "a_b", `"a"`, long[:62]} {
		pods("name", func(k *deploy.Kubernetes) { k.Name = name })
	}
	for _, name := range []string{"A", "a b", "a\nb: c", "-a", "a.b", long[:64]} {
		pods("namespace", func(k *deploy.Kubernetes) { k.Namespace = name })
		if name != "a.b" && len(name) < 64 {
			pods("service-account", func(k *deploy.Kubernetes) { k.ServiceAccount = name })
			pods("secret", func(k *deploy.Kubernetes) { k.Secrets = []string{"a", name} })
			pods("claim", func(k *deploy.Kubernetes) { k.Claims = []deploy.Claim{{name, "/a"}} })
		}
	}
	for _, image := range []string{"", " ", "a b", "a\n", ":a", "'a'"} {
		pods("image", func(k *deploy.Kubernetes) { k.Image = image })
	}
	for _, at := range []string{"a", "/", "/cache", "/tmp", "/a/../b", "/a/", "/a:b", "/b"} {
		pods("claim", func(k *deploy.Kubernetes) { k.Claims = []deploy.Claim{{"a", "/b"}, {"c", at}} })
	}
	for _, size := range []string{"16GiB", "-1", "0", "1.5Gi", "16 Gi", "lots"} {
		pods("memory", func(k *deploy.Kubernetes) { k.Memory = size })
	}
	pods("cpus", func(k *deploy.Kubernetes) { k.CPUs = -1 })
	pods("workers", func(k *deploy.Kubernetes) { k.Workers = 0 })
	pods("workers", func(k *deploy.Kubernetes) { k.Workers = 100_000 })
	for _, value := range []string{"\x00", "\xff", strings.Repeat(long, 500)} {
		pods("system", func(k *deploy.Kubernetes) { k.Flags = []deploy.Flag{{Name: "system", Value: value}} })
	}
	for _, path := range []string{"in.jsonl", "/dat", "/database/in.jsonl"} {
		pods("input", func(k *deploy.Kubernetes) {
			k.Claims = []deploy.Claim{{"a", "/data"}}
			k.Flags = []deploy.Flag{{Name: "input", Value: path, File: true}}
		})
	}
	batch := func(setting string, change func(s *deploy.Slurm)) {
		t.Helper()
		s := slurm()
		change(s)
		_, err := s.Script()
		refused(setting, err)
	}
	for _, name := range []string{"", "a b", "a\n#SBATCH --x", "-a", "'a'", "a;b", long} {
		batch("name", func(s *deploy.Slurm) { s.Name = name })
		if name != "" {
			batch("partition", func(s *deploy.Slurm) { s.Partition = name })
			batch("account", func(s *deploy.Slurm) { s.Account = name })
			batch("time", func(s *deploy.Slurm) { s.Time = name })
			batch("memory", func(s *deploy.Slurm) { s.Memory = name })
		}
	}
	batch("cpus", func(s *deploy.Slurm) { s.CPUs = 0 })
	batch("num-processes", func(s *deploy.Slurm) { s.Processes = -1 })
}
