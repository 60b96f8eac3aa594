package deploy

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/data/setting"
)

// Kubernetes defines the pods that a job runs in, and their resources.
type Kubernetes struct {
	Job
	Namespace, Image, ServiceAccount string
	// Secrets are the secrets whose keys the container gets as variables.
	Secrets []string
	Claims  []Claim
	// CPUs and Memory are what a pod requests, GPUs its limit.
	CPUs   int
	Memory string
	GPUs   int
}

// Claim is a PersistentVolumeClaim and its mount path.
type Claim struct{ Name, Path string }

// ParseClaim parses NAME:PATH.
func ParseClaim(text string) (Claim, error) {
	name, mount, ok := strings.Cut(text, ":")
	if !ok || name == "" || mount == "" {
		return Claim{}, setting.Errorf("`claim` is %q, but must be NAME:PATH, such as prompts:/data", text)
	}
	return Claim{name, mount}, nil
}

// The allowed values of fields.
var (
	label     = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)
	namespace = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	quantity  = regexp.MustCompile(`^[1-9][0-9]*(k|M|G|T|Ki|Mi|Gi|Ti)?$`)
	image     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)
)

const (
	ofLabel     = "at most 63 lower-case letters, digits and dashes, and begin and end with a letter or digit"
	ofSubdomain = "at most 253 lower-case letters, digits, dashes and dots, and begin and end with a letter or digit"
)

// maxName is the maximum length of a pod name, which is also its host name.
const maxName = 63

// check rejects what Kubernetes does not accept. suffix is the longest suffix that pod names add to the job's name.
func (k *Kubernetes) check(suffix string) error {
	if err := k.Job.check(); err != nil {
		return err
	}
	if room := maxName - len(suffix); k.Name == "" || len(k.Name) > room || !label.MatchString(k.Name) {
		return setting.Errorf("`name` is %q, but must have 1 to %d lower-case letters, digits and dashes, begin "+
			"with a letter and end with a letter or digit: names of pods add %q", k.Name, room, suffix)
	}
	if err := matches("namespace", k.Namespace, namespace, maxName, ofLabel); err != nil {
		return err
	}
	if k.Image == "" || !image.MatchString(k.Image) {
		return setting.Errorf("`image` is %q, but must be a reference such as registry.example.com/quire:1.0", k.Image)
	}
	if err := matches("service-account", k.ServiceAccount, subdomain, 253, ofSubdomain); err != nil {
		return err
	}
	for _, secret := range k.Secrets {
		if secret == "" || matches("secret", secret, subdomain, 253, ofSubdomain) != nil {
			return setting.Errorf("`secret` is %q, but must be %s", secret, ofSubdomain)
		}
	}
	if k.CPUs < 0 {
		return setting.Errorf("`cpus` is %d, but must be 1 or more", k.CPUs)
	}
	if err := matches("memory", k.Memory, quantity, maxName, "a whole number with a unit, such as 16Gi"); err != nil {
		return err
	}
	if err := k.checkClaims(); err != nil {
		return err
	}
	return k.checkFiles()
}

// checkClaims checks the paths that volumes are mounted at.
func (k *Kubernetes) checkClaims() error {
	taken := map[string]bool{"/": true, "/cache": true, "/tmp": true, "/dev/shm": true}
	for _, c := range k.Claims {
		switch {
		case matches("claim", c.Name, subdomain, 253, ofSubdomain) != nil:
			return setting.Errorf("`claim` is %q, but its name must be %s", c.Name+":"+c.Path, ofSubdomain)
		case !path.IsAbs(c.Path) || path.Clean(c.Path) != c.Path || strings.ContainsAny(c.Path, ":\x00"):
			return setting.Errorf("`claim` is %q, but its path must be absolute, without a colon and without . and ..",
				c.Name+":"+c.Path)
		case taken[c.Path]:
			return setting.Errorf("`claim` is %q, but a different volume is mounted at %s, or it is the root",
				c.Name+":"+c.Path, c.Path)
		}
		taken[c.Path] = true
	}
	return nil
}

// checkFiles checks that the job's files are on a volume.
func (k *Kubernetes) checkFiles() error {
	for _, f := range k.Flags {
		if !f.File {
			continue
		}
		found := false
		for _, c := range k.Claims {
			found = found || f.Value == c.Path || strings.HasPrefix(f.Value, c.Path+"/")
		}
		if !found {
			return setting.Errorf("%s is %q, which the pods do not have: give a URL, or a path on a volume that "+
				"`claim` NAME:PATH mounts", setting.Name(f.Name), f.Value)
		}
	}
	return nil
}

// pod is the data of the pod template.
type pod struct {
	*Kubernetes
	Setup         string // the item that the init container installs
	Args          []Flag
	Shards        int // value of the variable QUIRE_SHARD_COUNT, 0 for none
	TPU           *tpuPod
	Gang          bool   // the pods run one model together
	StartupProbes int    // failures before the first answer after which a container is ended
	Probes        int    // failures after the first answer
	ProbesNote    string // a comment after it
}

// SetupDisk returns the disk space of the node that the init container's files need: a wheel, and its unpacked
// content.
func (p pod) SetupDisk() string {
	return map[string]string{backend.CPU: "1Gi", backend.TPU: "2Gi", backend.CUDA: "8Gi"}[p.Setup]
}

// tpuPod is what a pod requires of a TPU node pool.
type tpuPod struct {
	Accelerator, Topology string
	Chips                 int // chips of a host
}

// IndexedJob renders a Job each of whose pods does one shard.
func (k *Kubernetes) IndexedJob() (File, error) {
	if err := k.check("-" + strconv.Itoa(k.Workers-1)); err != nil {
		return File{}, err
	}
	p := pod{Kubernetes: k, Setup: backend.CPU, Shards: k.Workers, StartupProbes: 60, Probes: k.probes(10)}
	if k.GPUs > 0 {
		p.Setup, p.StartupProbes = backend.CUDA, 180
	}
	p.Args = append(p.Args, k.Flags...)
	p.Args = append(p.Args, shardAuto)
	p.Args = append(p.Args, reporting...)
	text, err := render("job.yaml", p)
	return File{k.Name + ".yaml", text}, err
}

// callTimeout is the flag that ends a process whose device does not answer.
const callTimeout = "call-timeout"

// probes returns the number of failed probes, 30 s apart, after which a container is ended. --call-timeout, whose
// error is more informative, ends it first.
func (k *Kubernetes) probes(least int) int {
	for _, f := range k.Flags {
		if limit, err := time.ParseDuration(f.Value); f.Name == callTimeout && err == nil {
			return max(least, int(limit/(30*time.Second))+10)
		}
	}
	return least
}

// shardAuto and reporting are flags that manifests add.
var (
	shardAuto = Flag{Name: "shard", Value: "auto", note: "JOB_COMPLETION_INDEX of QUIRE_SHARD_COUNT"}
	reporting = []Flag{{Name: "log-format", Value: "json"}, {Name: "metrics", Value: "0.0.0.0:9090"}}
)
