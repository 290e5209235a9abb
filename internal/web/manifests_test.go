package web_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
)

// dnsLabel is what Kubernetes takes as the name of an object, a container, a port or a volume.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// TestManifestsFitTheRouter: the manifests for Kubernetes are YAML with the members that each object needs, their
// names are names, and the paths that probes ask exist: they answer 200 to a stranger.
func TestManifestsFitTheRouter(t *testing.T) {
	p := startProtected(t)
	files, err := filepath.Glob("../../examples/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	probes := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
			var object map[string]any
			if err := d.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			metadata, _ := object["metadata"].(map[string]any)
			name, _ := metadata["name"].(string)
			if object["apiVersion"] == nil || object["kind"] == nil || object["spec"] == nil && object["data"] == nil && object["kind"] != "ServiceAccount" || !dnsLabel.MatchString(name) {
				t.Errorf("%s: the object %v %q is not complete", file, object["kind"], name)
			}
			walk(object, func(key string, value any) {
				switch one := value.(type) {
				case string:
					if key == "name" && !dnsLabel.MatchString(one) && !regexp.MustCompile(`^[A-Z][A-Z0-9_]*$|^weir_[a-z_]+$`).MatchString(one) {
						t.Errorf("%s: the name %q", file, one)
					}
				case map[string]any:
					if key == "httpGet" && one["port"] == "http" { // not of NATS
						probes++
						p.probe(t, file, one)
					}
				}
			})
		}
	}
	if probes != 3*len(files) {
		t.Errorf("%d probes, want 3 in each file", probes)
	}
}

// walk calls f with each member of objects in a value.
func walk(value any, f func(key string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			f(key, member)
			walk(member, f)
		}
	case []any:
		for _, element := range v {
			walk(element, f)
		}
	}
}

// probe asks the gateway what a probe asks.
func (p *protected) probe(t *testing.T, file string, get map[string]any) {
	t.Helper()
	path, _ := get["path"].(string)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: the probe of %q gets %d %s", file, path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
}
