// Package validate holds the manifests to the types of Kubernetes' API: go -C deploy/validate test ./...
package validate

import (
	"os"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

func TestManifests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "k8s", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var job batchv1.Job
		if err := yaml.UnmarshalStrict(text, &job); err != nil { // a field that is none, or of another type
			t.Errorf("%s: %v", path, err)
			continue
		}
		pod := job.Spec.Template.Spec
		switch {
		case job.APIVersion != "batch/v1" || job.Kind != "Job":
			t.Errorf("%s: %s %s", path, job.APIVersion, job.Kind)
		case job.Spec.CompletionMode == nil || *job.Spec.CompletionMode != batchv1.IndexedCompletion || job.Spec.Completions == nil:
			t.Errorf("%s: it is no indexed job", path)
		case len(pod.Containers) != 1 || pod.RestartPolicy != "Never": // podFailurePolicy wants that
			t.Errorf("%s: one container that is never restarted in place is wanted", path)
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s: container %s mounts %s, which is no volume", path, c.Name, m.Name)
				}
			}
		}
		for _, rule := range job.Spec.PodFailurePolicy.Rules {
			if rule.OnExitCodes != nil && *rule.OnExitCodes.ContainerName != pod.Containers[0].Name {
				t.Errorf("%s: a rule is for container %s", path, *rule.OnExitCodes.ContainerName)
			}
		}
	}
}
