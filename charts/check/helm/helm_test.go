package helm

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"github.com/weir-mcp/weir/charts/check"
)

var update = flag.Bool("update", false, "write examples/kubernetes again")

// load reads the chart.
func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir("../../weir")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns what Helm makes of the chart with values, checked by its schema: files by their names.
func render(c *chart.Chart, values map[string]any) (map[string]string, error) {
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "weir", Namespace: "default", Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// join returns the objects as one file, in the order of their templates.
func join(files map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.Trim(files[name], "\n"); text != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", name, text)
		}
	}
	return b.String()
}

// TestChart: with each file of weir/ci the chart makes the objects of examples/kubernetes, which other tests compare
// with the types of the API and with weir.
func TestChart(t *testing.T) {
	files, err := filepath.Glob("../../weir/ci/*-values.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			values, err := chartutil.ReadValuesFile(file)
			if err != nil {
				t.Fatal(err)
			}
			rendered, err := render(load(t), values)
			if err != nil {
				t.Fatal(err)
			}
			if notes := rendered["weir/templates/NOTES.txt"]; !strings.Contains(notes, "kubectl --namespace default rollout status") {
				t.Errorf("notes: %q", notes)
			}
			head, err := check.Head("../../weir", name)
			if err != nil {
				t.Fatal(err)
			}
			text := head + join(rendered)
			golden := filepath.Join("..", "..", "..", "examples", "kubernetes", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || string(want) != text {
				t.Errorf("%s is not what the chart makes (%v): run go test ./helm -update in charts/check/", golden, err)
			}
		})
	}
}

// TestLint: helm lint finds nothing, with only the values of the chart and with each file of weir/ci.
func TestLint(t *testing.T) {
	files, err := filepath.Glob("../../weir/ci/*-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../weir/values.yaml") {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.AllWithKubeVersion("../../weir", values, "default", &chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", filepath.Base(file), m)
			}
		}
	}
}

// TestRefusals: values that make no working release are refused, and the message names the value.
func TestRefusals(t *testing.T) {
	const auth = "config: {auth: {tokens: [{name: a, sha256: x}]}}\n"
	for _, c := range []struct{ values, want string }{
		{"", "config.auth is missing"},
		{auth + "replicaCount: 2", "nats.enabled"},
		{auth + "autoscaling: {enabled: true}", "nats.enabled"},
		{auth + "nats: {enabled: true, password: {name: a}}", "cluster.key.name"},
		{auth + "nats: {enabled: true}\ncluster: {key: {name: a}}", "nats.password.name"},
		{"config: {store: \"file:/state\", auth: {server: {}}}\nnats: {enabled: true}", "two stores"},
		{auth + "ingress: {enabled: true}", "ingress.host"},
		{auth + "serviceMonitor: {enabled: true}", "serviceMonitor.token.name"},
		{"config: {auth: {server: {}}, store: \"nats://a\"}\ncluster: {key: {name: a}}\nautoscaling: {enabled: true, cpu: 0, callsInFlight: 0}", "nothing to scale by"},
		{auth + "replicas: 2", "replicas"},
		{"config: {listen: \"127.0.0.1:1\"}", "listen"},
		{"config: {cluster: {key: secret}}", "key"},
		{auth + "nats: {replicaCount: 2}", "replicaCount"},
		{auth + "drainSeconds: 30s", "drainSeconds"},
		{auth + "secrets: {env: {TOKEN: value}}", "TOKEN"},
		{auth + "image: {digest: latest}", "digest"},
	} {
		values, err := chartutil.ReadValues([]byte(c.values))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render(load(t), values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngives %v, want %s", c.values, err, c.want)
		}
	}
}
