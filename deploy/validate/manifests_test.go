// Package validate holds the manifests to the types and schemas of Kubernetes' API: go -C deploy/validate test ./...
package validate

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

func TestManifests(t *testing.T) {
	examples, _ := filepath.Glob(filepath.Join("..", "k8s", "*.yaml"))
	others, _ := filepath.Glob(filepath.Join("..", "testdata", "*.yaml"))
	if len(examples) == 0 || len(others) == 0 {
		t.Fatal(examples, others)
	}
	files := append(examples, others...)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range bytes.Split(text, []byte("\n---\n")) {
				checkDocument(t, document)
			}
		})
	}
}

// checkDocument validates a manifest against the type that it names, in which an unknown field is an error, and
// against the schema that a cluster uses for it.
func checkDocument(t *testing.T, text []byte) {
	t.Helper()
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &kind); err != nil {
		t.Fatal(err)
	}
	strictly := func(into any) {
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatal(err)
		}
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "batch/v1 Job":
		var job batchv1.Job
		strictly(&job)
		checkSetup(t, job.Spec.Template.Spec)
		checkShards(t, job.Spec)
	case "networking.k8s.io/v1 NetworkPolicy":
		strictly(&networkingv1.NetworkPolicy{})
	case "jobset.x-k8s.io/v1alpha2 JobSet":
		var set jobset.JobSet
		strictly(&set)
		checkSchema(t, text)
		if len(set.Spec.ReplicatedJobs) != 1 || set.Spec.FailurePolicy == nil {
			t.Fatal("it has no job, several, or no failure policy")
		}
		job := set.Spec.ReplicatedJobs[0]
		if job.Name == "" || job.Replicas != 1 { // indexes count within a Job
			t.Errorf("job %q has %d replicas", job.Name, job.Replicas)
		}
		checkSetup(t, job.Template.Spec.Template.Spec)
		checkTPU(t, job.Template.Spec.Template.Spec)
		if slices.Contains(job.Template.Spec.Template.Spec.Containers[0].Args, "--num-processes=auto") {
			checkGang(t, set)
		} else {
			checkShards(t, job.Template.Spec)
		}
	default:
		t.Errorf("nobody knows %+v", kind)
	}
}

// checkSchema holds a JobSet to the schema of its custom resource, which a cluster has.
func checkSchema(t *testing.T, text []byte) {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "config", "components", "crd", "bases",
		"jobset.x-k8s.io_jobsets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema spec.Schema }
			}
		}
	}
	if err := yaml.Unmarshal(source, &definition); err != nil {
		t.Fatal(err)
	}
	version := definition.Spec.Versions[0]
	if version.Name != "v1alpha2" || len(version.Schema.OpenAPIV3Schema.Properties) == 0 {
		t.Fatalf("the schema is of version %q", version.Name)
	}
	var set any
	if err := yaml.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	validator := validate.NewSchemaValidator(&version.Schema.OpenAPIV3Schema, nil, "", strfmt.Default)
	for _, err := range validator.Validate(set).Errors {
		t.Error(err)
	}
	// The schema is one that can fail.
	set.(map[string]any)["spec"].(map[string]any)["failurePolicy"].(map[string]any)["restartStrategy"] = "Never"
	if validator.Validate(set).IsValid() {
		t.Error("any restart strategy is valid")
	}
}

// checkSetup holds an init container to what namespaces with a quota want, and to what it takes.
func checkSetup(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers", len(pod.InitContainers))
	}
	c := pod.InitContainers[0]
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceEphemeralStorage} {
		if request := c.Resources.Requests[name]; request.IsZero() {
			t.Errorf("container %s requests no %s", c.Name, name)
		}
	}
	request, limit := c.Resources.Requests[corev1.ResourceMemory], c.Resources.Limits[corev1.ResourceMemory]
	if limit.Cmp(request) < 0 {
		t.Errorf("container %s requests %s of memory, and may have %s", c.Name, &request, &limit)
	}
	// The node of a pod has room for the more of its containers: the init container must not ask for the more.
	if whole := pod.Containers[0].Resources.Requests[corev1.ResourceMemory]; !whole.IsZero() && whole.Cmp(request) < 0 {
		t.Errorf("container %s requests %s of memory, and the job %s", c.Name, &request, &whole)
	}
}

// checkTPU holds a pod to what the chips want.
func checkTPU(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	chips := c.Resources.Limits["google.com/tpu"]
	switch {
	case chips.IsZero() || pod.NodeSelector["cloud.google.com/gke-tpu-topology"] == "" ||
		pod.NodeSelector["cloud.google.com/gke-tpu-accelerator"] == "":
		t.Error("it asks for no chips, or for none of a kind and topology")
	case pod.SecurityContext.RunAsUser == nil || *pod.SecurityContext.RunAsUser != 0,
		!slices.Contains(c.SecurityContext.Capabilities.Add, "SYS_RESOURCE"):
		t.Error("its container can't open /dev/vfio, or lock memory for it")
	case c.SecurityContext.Privileged != nil || *c.SecurityContext.AllowPrivilegeEscalation:
		t.Error("its container may do more than it needs")
	}
}

// checkGang holds a JobSet of one model on several hosts to what those need: each other, and to end and start together.
func checkGang(t *testing.T, set jobset.JobSet) {
	t.Helper()
	job := set.Spec.ReplicatedJobs[0].Template.Spec
	pod := job.Template.Spec
	c := pod.Containers[0]
	chips := c.Resources.Limits["google.com/tpu"]
	size := 1
	for axis := range strings.SplitSeq(pod.NodeSelector["cloud.google.com/gke-tpu-topology"], "x") {
		n, _ := strconv.Atoi(axis)
		size *= n
	}
	ports := map[int32]bool{}
	for _, p := range c.Ports {
		ports[p.ContainerPort] = true
	}
	network := set.Spec.Network
	switch {
	case *job.CompletionMode != batchv1.IndexedCompletion || *job.Completions != *job.Parallelism ||
		*job.BackoffLimit != 0 || pod.RestartPolicy != "Never":
		t.Error("its pods do not begin and end together")
	case int(*job.Completions)*int(chips.Value()) != size || !slices.Contains(c.Args, fmt.Sprintf("--tp=%d", size)):
		t.Errorf("%d hosts of %d chips are not %d, or not --tp", *job.Completions, chips.Value(), size)
	case network == nil || !*network.EnableDNSHostnames || !*network.PublishNotReadyAddresses || !ports[8476]:
		t.Error("its pods do not find each other")
	case set.Spec.FailurePolicy.RestartStrategy != jobset.BlockingRecreate || set.Spec.FailurePolicy.MaxRestarts == 0:
		t.Error("a pod may start while an old one has the chips, or never again")
	}
	// What the Job reports when a pod ends, and what happens to the JobSet.
	const exit, again = "Container sample for pod default/x failed with exit code %d matching FailJob rule at index 0",
		jobset.RestartJobSetAndIgnoreMaxRestarts
	for message, want := range map[string]jobset.FailurePolicyAction{
		fmt.Sprintf(exit, 2): jobset.FailJobSet, fmt.Sprintf(exit, 3): jobset.FailJobSet, fmt.Sprintf(exit, 4): again,
		"Pod default/x has condition DisruptionTarget matching FailJob rule at index 1": again,
	} {
		if got := action(set.Spec.FailurePolicy, "PodFailurePolicy", message); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
	if got := action(set.Spec.FailurePolicy, "BackoffLimitExceeded",
		"Job has reached the specified backoff limit"); got != jobset.RestartJobSet {
		t.Errorf("a failure is a %s", got)
	}
	for _, code := range []int32{2, 3, 4} { // 1 and a kill are failures, which count
		if !slices.Contains(job.PodFailurePolicy.Rules[0].OnExitCodes.Values, code) {
			t.Errorf("exit code %d counts as a failure", code)
		}
	}
}

// action is what the first rule that fits does, as JobSet's controller has it.
func action(policy *jobset.FailurePolicy, reason, message string) jobset.FailurePolicyAction {
	for _, rule := range policy.Rules {
		fits := len(rule.OnJobFailureMessagePatterns) == 0
		for _, pattern := range rule.OnJobFailureMessagePatterns {
			fits = fits || regexp.MustCompile(pattern).MatchString(message)
		}
		if fits && (len(rule.OnJobFailureReasons) == 0 || slices.Contains(rule.OnJobFailureReasons, reason)) {
			return rule.Action
		}
	}
	return jobset.RestartJobSet
}

// checkShards holds an indexed job to what processes with a shard each need.
func checkShards(t *testing.T, job batchv1.JobSpec) {
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
