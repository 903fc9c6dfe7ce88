package schematest

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// decode reads the manifest as the API server does with strict field validation: an unknown key, one given twice, or one of another type is
// an error.
func decode(t *testing.T) (*corev1.Namespace, *appsv1.DaemonSet) {
	t.Helper()
	text, err := os.ReadFile("../bulkshaper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parts := bytes.Split(text, []byte("\n---\n"))
	if len(parts) != 2 {
		t.Fatalf("%d documents", len(parts))
	}
	namespace, set := new(corev1.Namespace), new(appsv1.DaemonSet)
	for i, into := range []any{namespace, set} {
		if err := yaml.UnmarshalStrict(parts[i], into); err != nil {
			t.Fatalf("document %d: %v", i+1, err)
		}
	}
	if got, want := namespace.GroupVersionKind(), corev1.SchemeGroupVersion.WithKind("Namespace"); got != want {
		t.Errorf("the first document is a %s, want a %s", got, want)
	}
	if got, want := set.GroupVersionKind(), appsv1.SchemeGroupVersion.WithKind("DaemonSet"); got != want {
		t.Errorf("the second document is a %s, want a %s", got, want)
	}
	return namespace, set
}

func TestStrict(t *testing.T) {
	decode(t)
	for _, wrong := range []string{"spec: {tempalte: {}}", "spec: {minReadySeconds: soon}", "kind: DaemonSet\nkind: DaemonSet"} {
		if yaml.UnmarshalStrict([]byte(wrong), new(appsv1.DaemonSet)) == nil {
			t.Errorf("this decoding lets pass %q", wrong)
		}
	}
}

// TestConsistent: what the API server would refuse beyond the types, and what a pod would wait for in vain.
func TestConsistent(t *testing.T) {
	namespace, set := decode(t)
	if set.Namespace != namespace.Name {
		t.Errorf("the DaemonSet is in %q, the namespace is %q", set.Namespace, namespace.Name)
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
		t.Errorf("the selector %s does not select the pods %v: %v", selector, set.Spec.Template.Labels, err)
	}
	for _, all := range []map[string]string{namespace.Labels, set.Labels, set.Spec.Template.Labels, set.Spec.Template.Spec.NodeSelector} {
		for key, value := range all {
			if wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); wrong != nil {
				t.Errorf("label %s: %s: %v", key, value, wrong)
			}
		}
	}
	if !set.Spec.Template.Spec.HostNetwork {
		t.Error("the pod has a network of its own, and nothing to shape")
	}
	if r := set.Spec.UpdateStrategy.RollingUpdate; r == nil || r.MaxUnavailable.IntValue() != 1 || r.MaxSurge.IntValue() != 0 {
		t.Errorf("two daemons on one node, or many nodes at once: %+v", r)
	}
	pod := set.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	c := pod.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		if p.HostPort != p.ContainerPort {
			t.Errorf("in the node's network port %s cannot be %d and %d", p.Name, p.HostPort, p.ContainerPort)
		}
		ports[p.Name] = p.ContainerPort
	}
	for path, probe := range map[string]*corev1.Probe{"/-/ready": c.ReadinessProbe, "/-/healthy": c.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || ports[probe.HTTPGet.Port.StrVal] == 0 {
			t.Errorf("the probe of %s asks a port that there is not: %+v", path, probe)
		}
	}
	var volumes, mounts []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
		if v.ConfigMap != nil && (v.ConfigMap.DefaultMode == nil || *v.ConfigMap.DefaultMode != 0o444) {
			t.Errorf("the files of volume %s have mode %v", v.Name, v.ConfigMap.DefaultMode)
		}
	}
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name)
		if m.SubPath != "" || m.SubPathExpr != "" {
			t.Errorf("volume %s is mounted by a sub path: its files are never exchanged", m.Name)
		}
	}
	if slices.Sort(volumes); !slices.Equal(volumes, slices.Sorted(slices.Values(mounts))) {
		t.Errorf("volumes %v, mounts %v", volumes, mounts)
	}
	if memory := c.Resources.Limits.Memory(); c.Resources.Requests.Memory().Cmp(*memory) > 0 || memory.Value() != 512<<20 {
		t.Errorf("a limit of %s and a request of %s of memory", memory, c.Resources.Requests.Memory())
	}
}

// TestPrivilege: of all that the strictest level of the Pod Security Standards forbids, exactly what shaping needs is used.
func TestPrivilege(t *testing.T) {
	namespace, set := decode(t)
	if got := namespace.Labels[api.EnforceLevelLabel]; got != string(api.LevelPrivileged) {
		t.Errorf("the namespace enforces %q, which keeps the pod out", got)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &set.Spec.Template.ObjectMeta, &set.Spec.Template.Spec) {
		if !r.Allowed {
			used = append(used, r.ForbiddenReason+": "+r.ForbiddenDetail)
		}
	}
	slices.Sort(used)
	want := []string{
		`host namespaces: hostNetwork=true`,
		`hostPort: container "bulkshaper" uses hostPort 9825`,
		`restricted volume types: volume "run" uses restricted volume type "hostPath"`,
		`runAsNonRoot != true: pod or container "bulkshaper" must set securityContext.runAsNonRoot=true`,
		`runAsUser=0: container "bulkshaper" must not set runAsUser=0`,
		`unrestricted capabilities: container "bulkshaper" must not include "NET_ADMIN" in securityContext.capabilities.add`,
	}
	slices.Sort(want)
	if !slices.Equal(used, want) {
		t.Errorf("beyond the restricted level it uses\n%s\nwant\n%s", strings.Join(used, "\n"), strings.Join(want, "\n"))
	}
	if set.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem == nil || !*set.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the root can be written")
	}
	if token := set.Spec.Template.Spec.AutomountServiceAccountToken; token == nil || *token {
		t.Error("it has a token of a service account")
	}
}
