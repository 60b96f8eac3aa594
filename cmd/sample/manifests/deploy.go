// Package manifests has the subcommand deploy, which prints manifests of a job for schedulers.
package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/deploy"
	"github.com/quire/quire/models"
)

// Targets of "sample deploy".
const (
	toKubernetes = "k8s"
	toSlurm      = "slurm"
	toTPU        = "gke-tpu"
)

// deployOptions are the flags of "sample deploy".
type deployOptions struct {
	run jobflags.Options

	workers                               int
	name, folder                          string
	namespace, image, account, memory     string
	secrets, claims                       []string
	cpus, processes                       int
	topology, time, partition, accountant string
}

// flagsOfTargets are flags that some targets have.
var flagsOfTargets = map[string][]string{
	"namespace": {toKubernetes, toTPU}, "image": {toKubernetes, toTPU}, "service-account": {toKubernetes, toTPU},
	"secret": {toKubernetes, toTPU}, "claim": {toKubernetes, toTPU}, "topology": {toTPU},
	"cpus": {toKubernetes, toSlurm}, "memory": {toKubernetes, toSlurm}, "num-processes": {toSlurm},
	"time": {toSlurm}, "partition": {toSlurm}, "account": {toSlurm},
}

// ofAManifest are flags of one process that manifests hand on.
var ofAManifest = []string{"config", "workers", "max-restarts", "client-timeout", "call-timeout", "maintenance",
	"log-level"}

func NewDeploy() *cli.Command {
	var o deployOptions
	var f *cli.Flags
	return &cli.Command{
		Name:    "deploy",
		Args:    "k8s|slurm|gke-tpu [FILE...]",
		Summary: "write the manifests that run a job on Kubernetes, Slurm or TPUs of GKE",
		About: `
The job is the same as in "sample run" with the same flags or --config file. The manifest has all of them, also the
contents of files of a schema, a grammar or tools, so that the cluster needs no file from this machine. Files that remain
(--chat-template, --prefix-file, and local models, inputs and outputs) must be there under the same names.

  k8s      an Indexed Job: --workers pods, which do a shard each. With --backend xla:cuda a pod gets --tp times --dp
           GPUs
  gke-tpu  a JobSet: --workers hosts of --topology, which do a shard each. Where the topology has several hosts, these
           run one model together, and --workers is the number of slices, with a JobSet for each
  slurm    a batch script: an array of --workers tasks, which do a shard each. With --num-processes each task is so
           many nodes that run one model together

The command reaches no cluster. What the cluster would refuse, such as a name with capital letters, is an error here.
Inputs and models are not opened.`,
		Example: `
sample deploy k8s -m s3://bucket/model/ -i s3://bucket/prompts/ -o s3://bucket/out --secret aws | kubectl apply -f -
sample deploy k8s --config job.yaml --claim prompts:/data --workers 32 --manifests manifests/
sample deploy gke-tpu --topology v5e:4x4 -m gs://bucket/model/ --dtype bf16 -i gs://bucket/in/ -o gs://bucket/out
sample deploy slurm -m /models/Qwen3-8B -i '/data/*.parquet' -o /data/out --time 8:00:00 --partition cpu > job.sbatch`,
		Flags: func(fl *cli.Flags) { f = fl; o.define(f) },
		Run: func(_ context.Context, env *cli.Environment, args []string) error {
			file, err := o.render(f, args)
			if err != nil {
				return cli.Exit(cli.ExitUsage, fmt.Errorf("deploy: %w", cli.PlaceOr(err)))
			}
			if o.folder == "" {
				_, err = env.Stdout.Write(file.Text)
				return err
			}
			if err := os.MkdirAll(o.folder, 0o777); err != nil {
				return fmt.Errorf("--manifests: %w", err)
			}
			path := filepath.Join(o.folder, file.Name)
			if err := os.WriteFile(path, file.Text, 0o666); err != nil {
				return fmt.Errorf("--manifests: %w", err)
			}
			fmt.Fprintln(env.Stdout, path)
			return nil
		},
	}
}

func (o *deployOptions) define(f *cli.Flags) {
	f.Group("Deployment", func(s *pflag.FlagSet) {
		s.StringVar(&o.name, "name", "quire", "`NAME` name of the job in the cluster, and of the file")
		s.IntVar(&o.workers, "workers", 0,
			"`N` pods, tasks or slices, which do a shard of the job each (default: 8, and 1 where several processes "+
				"run one model)")
		cli.PlaceVar(s, &o.folder, cli.OnThisMachine, "manifests", "",
			"`FOLDER` write a file to this folder (default: print the manifest)")
	})
	f.Group("Kubernetes and GKE", func(s *pflag.FlagSet) {
		s.StringVar(&o.namespace, "namespace", "", "`NAME` namespace (default: that of kubectl)")
		s.StringVar(&o.image, "image", "quire:latest", "`IMAGE` image with sample: see deploy/Dockerfile")
		s.StringVar(&o.account, "service-account", "", "`NAME` service account of the pods")
		s.StringArrayVar(&o.secrets, "secret", nil,
			"`NAME` secret whose keys are variables of the container, such as credentials of a store. Repeatable")
		s.StringArrayVar(&o.claims, "claim", nil,
			"`NAME:PATH` mount a PersistentVolumeClaim at PATH, for local names of files. Repeatable")
		s.StringVar(&o.topology, "topology", "",
			"`NAME` TPUs of gke-tpu, as sample plan has it: v5e:1x1 is one chip, v5e:2x4 a host, v5e:4x4 four hosts")
	})
	f.Group("Kubernetes and Slurm", func(s *pflag.FlagSet) {
		s.IntVar(&o.cpus, "cpus", 0, "`N` processors of a pod or task (default: 8 for k8s, 16 for slurm)")
		s.StringVar(&o.memory, "memory", "",
			"`SIZE` memory of a pod or task, in units of the cluster (default: 16Gi for k8s, 32G for slurm)")
	})
	f.Group("Slurm", func(s *pflag.FlagSet) {
		s.IntVar(&o.processes, "num-processes", 0,
			"`N` nodes that run one model together, each with an equal share of --tp's devices (docs/parallel.md)")
		s.StringVar(&o.time, "time", "24:00:00", "`TIME` limit, after which a task is queued again and continues")
		s.StringVar(&o.partition, "partition", "", "`NAME` partition (default: Slurm's)")
		s.StringVar(&o.accountant, "account", "", "`NAME` account that is charged (default: yours)")
	})
	run := cli.NewFlags("run")
	o.run.Define(run)
	jobflags.WithoutStreams(run.Set)
	for _, g := range run.Groups {
		if strings.HasPrefix(g.Title, "Workers") || g.Title == jobflags.DiagnosticsTitle {
			continue
		}
		f.Group(g.Title, func(s *pflag.FlagSet) {
			g.Set.VisitAll(func(flag *pflag.Flag) {
				if handedOn(flag.Name) {
					s.AddFlag(flag)
				}
			})
		})
	}
	f.Set.AddFlagSet(run.Set) // config files of "sample run" work unchanged
}

// handedOn reports whether a flag of "sample run" is one that the manifest may have, or that reports what it has.
func handedOn(name string) bool {
	return !slices.Contains(jobflags.OfAProcess, name) || slices.Contains(ofAManifest, name)
}

// render makes the manifest of a command line.
func (o *deployOptions) render(f *cli.Flags, args []string) (file deploy.File, err error) {
	targets := []string{toKubernetes, toSlurm, toTPU}
	if len(args) == 0 || !slices.Contains(targets, args[0]) {
		given := ""
		if len(args) > 0 {
			given = fmt.Sprintf(", but is %q%s", args[0], cli.DidYouMean(args[0], targets, ""))
		}
		return file, fmt.Errorf("the first argument must be one of %s%s", strings.Join(targets, ", "), given)
	}
	target := args[0]
	for name, allowed := range flagsOfTargets {
		if f.Set.Changed(name) && !slices.Contains(allowed, target) {
			return file, fmt.Errorf("--%s may not come with %s: it is for %s", name, target,
				strings.Join(allowed, " and "))
		}
	}
	if err := o.run.Refuse(f, "sample deploy", ofAManifest...); err != nil {
		return file, err
	}
	if err := o.run.Read(f, args[1:]); err != nil {
		return file, err
	}
	if err := o.run.TakeStream(f); err != nil {
		return file, err
	}
	if o.workers < 0 || o.workers == 0 && f.Set.Changed("workers") {
		return file, fmt.Errorf("--workers is %d, but must be 1 or more", o.workers)
	}
	switch target {
	case toSlurm:
		return o.slurm(f)
	case toTPU:
		return o.tpu(f)
	}
	if name := o.run.Spec.Engine.Backend; name == backend.XLATPU {
		return file, fmt.Errorf("--backend is %s: the target for TPUs is gke-tpu", name)
	}
	k, err := o.kubernetes(f, 8)
	if err != nil {
		return file, err
	}
	k.CPUs, k.Memory, k.GPUs = orDefault(o.cpus, 8), orDefault(o.memory, "16Gi"), o.gpus()
	return k.IndexedJob()
}

func orDefault[T comparable](value, otherwise T) T {
	if value == *new(T) {
		return otherwise
	}
	return value
}

// gpus returns how many GPUs a process takes.
func (o *deployOptions) gpus() int {
	if e := &o.run.Spec.Engine; e.Backend == backend.XLACUDA {
		return e.TP * e.DP
	}
	return 0
}

// kubernetes is what Jobs and JobSets have in common. workers is their number unless a flag sets it.
func (o *deployOptions) kubernetes(f *cli.Flags, workers int) (*deploy.Kubernetes, error) {
	if err := o.run.Check(); err != nil {
		return nil, err
	}
	k := &deploy.Kubernetes{Job: o.job(f, workers), Namespace: o.namespace, Image: o.image, ServiceAccount: o.account,
		Secrets: o.secrets}
	for _, text := range o.claims {
		c, err := deploy.ParseClaim(text)
		if err != nil {
			return nil, err
		}
		k.Claims = append(k.Claims, c)
	}
	return k, nil
}

// tpu renders JobSets.
func (o *deployOptions) tpu(f *cli.Flags) (file deploy.File, err error) {
	if o.topology == "" {
		return file, fmt.Errorf("--topology is missing: such as v5e:1x1 for a chip in each pod, or v5e:4x4 for a slice")
	}
	t, err := deploy.ParseTopology(o.topology)
	if err != nil {
		return file, err
	}
	engine := &o.run.Spec.Engine
	switch given := f.Set.Lookup("backend"); {
	case cli.Given(given) && engine.Backend != backend.XLATPU:
		return file, fmt.Errorf("--backend is %s, but must be xla:tpu for gke-tpu", engine.Backend)
	case cli.Given(given):
		clearGiven(given)
	}
	engine.Backend = backend.XLATPU
	own := !cli.Given(f.Set.Lookup("tp")) && !cli.Given(f.Set.Lookup("dp")) && !cli.Given(f.Set.Lookup("mesh"))
	if own {
		engine.TP = t.Devices
	}
	workers := 8
	if t.Hosts > 1 {
		workers = 1
		o.together(t.Hosts)
	}
	k, err := o.kubernetes(f, workers)
	switch {
	case err != nil:
		return file, err
	case engine.TP*engine.DP != t.Devices:
		return file, fmt.Errorf("--tp %d and --dp %d take %d devices, but --topology %s has %d", engine.TP, engine.DP,
			engine.TP*engine.DP, o.topology, t.Devices)
	case own && t.Devices > 1:
		k.Flags = append(k.Flags, deploy.Flag{Name: "tp", Value: strconv.Itoa(t.Devices)})
	}
	return k.JobSet(t)
}

// slurm renders a batch script.
func (o *deployOptions) slurm(f *cli.Flags) (file deploy.File, err error) {
	if o.processes < 0 || o.processes == 0 && f.Set.Changed("num-processes") {
		return file, fmt.Errorf("--num-processes is %d, but must be 1 or more", o.processes)
	}
	workers := 8
	if o.processes > 1 {
		workers = 1
		o.together(o.processes)
	}
	if err := o.run.Check(); err != nil {
		return file, err
	}
	s := deploy.Slurm{Job: o.job(f, workers), Processes: o.processes, CPUs: orDefault(o.cpus, 16),
		Memory: orDefault(o.memory, "32G"), GPUs: o.gpus(), Time: o.time, Partition: o.partition,
		Account: o.accountant}
	return s.Script()
}

// together has the job checked as one of so many processes that run a model together.
func (o *deployOptions) together(processes int) {
	o.run.Hosts.Define(pflag.NewFlagSet("run", pflag.ContinueOnError)) // the defaults
	o.run.Hosts.CountText, o.run.Hosts.ID = strconv.Itoa(processes), 0
	o.run.Hosts.CoordinatorAddress = "process-0:8476"
}

// job is the job with its flags.
func (o *deployOptions) job(f *cli.Flags, workers int) deploy.Job {
	job := deploy.Job{Name: o.name, Workers: orDefault(o.workers, workers)}
	structured := false
	o.run.Flags.VisitAll(func(flag *pflag.Flag) {
		if !handedOn(flag.Name) || slices.Contains([]string{"config", "workers"}, flag.Name) || !cli.Given(flag) {
			return
		}
		name := flag.Name
		switch name {
		case "json-schema", "regex", "choice", "grammar": // the file may not be there
			name = "structured-outputs"
		}
		if name == "structured-outputs" && structured {
			return
		}
		structured = structured || name == "structured-outputs"
		for _, value := range o.valuesOf(name, flag) {
			job.Flags = append(job.Flags, deploy.Flag{Name: name, Value: value, File: o.isFile(name, value)})
		}
	})
	return job
}

// clearGiven makes a flag one that was not given.
func clearGiven(flag *pflag.Flag) {
	flag.Changed = false
	delete(flag.Annotations, cli.GivenInConfig)
}

// valuesOf are the texts that give a flag its value again.
func (o *deployOptions) valuesOf(name string, flag *pflag.Flag) []string {
	for p := range parameter.Own() {
		if p.Flag != name {
			continue
		}
		switch value := p.At(&o.run.Spec.Sampling).(type) {
		case *parameter.Biases, *parameter.Structure: // whose flags do not keep their texts
			text, _ := json.Marshal(value)
			return []string{string(text)}
		}
	}
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}

// isFile reports whether the value of a flag is a file or folder which the process opens.
func (o *deployOptions) isFile(name, value string) bool {
	switch name {
	case "model", "draft-model", "merge-adapter":
		return !storage.IsRemote(value) && !models.OnHub(value) && !slices.Contains(setup.Models(), value)
	case "input", "output":
		return !storage.IsRemote(value)
	case "chat-template":
		return value != spec.TemplateOfModel && value != spec.TemplateNone
	case "prefix-file", "adapters":
		return true
	case "backend":
		return strings.HasPrefix(value, "xla:/")
	}
	return false
}
