// Package validate holds the manifests to the types of Kubernetes' API: go -C deploy/validate test ./...
package validate

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

func TestManifests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "k8s", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var kind struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(text, &kind); err != nil {
				t.Fatal(err)
			}
			switch kind.APIVersion + " " + kind.Kind {
			case "batch/v1 Job":
				var job batchv1.Job
				if err := yaml.UnmarshalStrict(text, &job); err != nil { // a field that is none, or of another type
					t.Fatal(err)
				}
				check(t, job.Spec)
			case "jobset.x-k8s.io/v1alpha2 JobSet":
				var set jobset.JobSet
				if err := yaml.UnmarshalStrict(text, &set); err != nil {
					t.Fatal(err)
				}
				if len(set.Spec.ReplicatedJobs) == 0 || set.Spec.FailurePolicy == nil {
					t.Fatal("it has no jobs, or no failure policy")
				}
				for _, job := range set.Spec.ReplicatedJobs {
					if job.Name == "" || job.Replicas != 1 { // indexes count within a Job
						t.Errorf("job %q has %d replicas", job.Name, job.Replicas)
					}
					check(t, job.Template.Spec)
				}
			default:
				t.Errorf("nobody knows %+v", kind)
			}
		})
	}
}

// check holds an indexed job to what its processes need.
func check(t *testing.T, job batchv1.JobSpec) {
	t.Helper()
	pod := job.Template.Spec
	switch {
	case job.CompletionMode == nil || *job.CompletionMode != batchv1.IndexedCompletion || job.Completions == nil:
		t.Fatal("it is no indexed job")
	case len(pod.Containers) != 1 || pod.RestartPolicy != "Never": // podFailurePolicy wants that
		t.Fatal("one container that is never restarted in place is wanted")
	case job.BackoffLimitPerIndex == nil || job.PodFailurePolicy == nil:
		t.Fatal("a shard that fails must not end the others")
	}
	c := pod.Containers[0]
	if slices.Contains(c.Args, "--shard=auto") {
		count := ""
		for _, e := range c.Env {
			if e.Name == "QUIRE_SHARD_COUNT" {
				count = e.Value
			}
		}
		if count != strconv.Itoa(int(*job.Completions)) || *job.Parallelism != *job.Completions {
			t.Errorf("%d pods, %d at a time, are %q shards", *job.Completions, *job.Parallelism, count)
		}
	} else {
		t.Error("its pods are not told apart by --shard=auto")
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
	}
	for _, rule := range job.PodFailurePolicy.Rules {
		if rule.OnExitCodes != nil && *rule.OnExitCodes.ContainerName != c.Name {
			t.Errorf("a rule is for container %s", *rule.OnExitCodes.ContainerName)
		}
	}
}
