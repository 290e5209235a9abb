package check

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kinds are the types of the API by apiVersion and kind.
var kinds = map[string]any{
	"v1 ConfigMap":                            core.ConfigMap{},
	"v1 Service":                              core.Service{},
	"v1 ServiceAccount":                       core.ServiceAccount{},
	"apps/v1 Deployment":                      apps.Deployment{},
	"apps/v1 StatefulSet":                     apps.StatefulSet{},
	"autoscaling/v2 HorizontalPodAutoscaler":  autoscaling.HorizontalPodAutoscaler{},
	"monitoring.coreos.com/v1 ServiceMonitor": monitoring.ServiceMonitor{},
	"networking.k8s.io/v1 Ingress":            networking.Ingress{},
	"networking.k8s.io/v1 NetworkPolicy":      networking.NetworkPolicy{},
	"policy/v1 PodDisruptionBudget":           policy.PodDisruptionBudget{},
}

// TestObjects: the types of the API have each member of the objects of examples/kubernetes, in the same letters, and
// the objects come from this chart.
func TestObjects(t *testing.T) {
	files, err := filepath.Glob("../weir/ci/*-values.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	made := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		head, err := Head("../weir", name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "kubernetes", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		objects, current := strings.CutPrefix(string(text), head)
		if !current {
			t.Errorf("examples/kubernetes/%s.yaml is of another chart: run go test ./helm -update in charts/check/", name)
		}
		for object := range strings.SplitSeq(strings.TrimPrefix(objects, "---\n"), "\n---\n") {
			made[decode(t, object)] = true
		}
	}
	for kind := range kinds {
		if !made[kind] {
			t.Errorf("no values make a %s", kind)
		}
	}
}

// decode reads an object into the type of its API, which must have all of its members, and returns its kind.
func decode(t *testing.T, text string) string {
	t.Helper()
	var about struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(text), &about); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	kind := about.APIVersion + " " + about.Kind
	if kinds[kind] == nil {
		t.Fatalf("an object of kind %q:\n%s", kind, text)
	}
	if err := strictly(text, reflect.New(reflect.TypeOf(kinds[kind])).Interface()); err != nil {
		t.Errorf("%s: %v in:\n%s", kind, err, text)
	}
	return kind
}

// strictly decodes as the API server does with fieldValidation=Strict: the case of letters counts.
func strictly(text string, into any) error {
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(data, into)
	return errors.Join(append(unknown, err)...)
}

// TestStrictly: a member that the API does not have is found.
func TestStrictly(t *testing.T) {
	for member, known := range map[string]bool{"targetPort: b": true, "targetport: b": false, "protocols: TCP": false, "port: 2": false} {
		if err := strictly("spec: {ports: [{port: 1, "+member+"}]}", &core.Service{}); (err == nil) != known {
			t.Errorf("%s: %v", member, err)
		}
	}
}
