package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config"
)

// manifest is what a Kubernetes object says that must fit other objects or the product.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas       int
		MaxUnavailable int                         `yaml:"maxUnavailable"`
		ScaleTargetRef struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		Selector       map[string]any
		Ports          []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				Grace  int `yaml:"terminationGracePeriodSeconds"`
				Spread []struct {
					TopologyKey   string `yaml:"topologyKey"`
					LabelSelector peers  `yaml:"labelSelector"`
				} `yaml:"topologySpreadConstraints"`
				Containers []struct {
					Args  []string
					Env   []struct{ Name string }
					Ports []struct {
						Name string
						Port int `yaml:"containerPort"`
					}
					StartupProbe   probe `yaml:"startupProbe"`
					ReadinessProbe probe `yaml:"readinessProbe"`
					LivenessProbe  probe `yaml:"livenessProbe"`
					Mounts         []struct {
						Name string
						Path string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct{ Name string }
			}
		}
		PodSelector peers `yaml:"podSelector"` // of a NetworkPolicy, as the rest
		Ingress     []struct {
			From []struct {
				PodSelector peers `yaml:"podSelector"`
			}
			Ports []struct{ Port string }
		}
	}
}

// peers selects pods by their labels.
type peers struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type probe struct {
	HTTP struct{ Path, Port string } `yaml:"httpGet"`
}

// TestKubernetes: the manifests of examples/kubernetes fit each other, and weir takes their configuration
// with the ports that they open.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../examples/kubernetes/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*manifest{}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		m := &manifest{}
		if err := d.Decode(m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind+" "+m.Metadata.Name] = m
	}
	set := all["Deployment weir"]
	if set == nil || all["ConfigMap weir"] == nil || all["Service weir"] == nil || all["PodDisruptionBudget weir"] == nil {
		t.Fatalf("objects: %v", all)
	}
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = "10.0.0.1"
	}
	env["POD_NAME"], env["CLUSTER_KEY"] = "weir-0", base64.StdEncoding.EncodeToString(make([]byte, 32))
	conf, warnings, err := config.Parse("weir.yaml", []byte(all["ConfigMap weir"].Data["weir.yaml"]), config.Options{
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("the configuration: %v, %v", err, warnings)
	}
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.Port
	}
	at := func(address string) int {
		_, port, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(port)
		return n
	}
	if ports["http"] != at(conf.Listen) || ports["peer"] != at(conf.Cluster.Listen) || ports["peer"] != at(conf.Cluster.Advertise) {
		t.Errorf("ports %v, and weir listens at %s and %s", ports, conf.Listen, conf.Cluster.Listen)
	}
	for want, p := range map[string][]probe{"/readyz": {c.ReadinessProbe}, "/healthz": {c.StartupProbe, c.LivenessProbe}} {
		for _, one := range p {
			if one.HTTP.Path != want || ports[one.HTTP.Port] != ports["http"] {
				t.Errorf("a probe asks %+v, want %s", one, want)
			}
		}
	}
	if want := fmt.Sprint([]string{"serve", "--config", "/config/weir.yaml"}); fmt.Sprint(c.Args) != want {
		t.Errorf("arguments %v", c.Args)
	}
	if grace := time.Duration(pod.Grace) * time.Second; grace < conf.Cluster.Drain+10*time.Second {
		t.Errorf("the pod has %v to end, and weir drains for %v", grace, conf.Cluster.Drain)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.Mounts {
		if !volumes[m.Name] {
			t.Errorf("%s mounts the volume %q, which there is not", m.Path, m.Name)
		}
	}
	labels, _ := json.Marshal(set.Spec.Template.Metadata.Labels)
	for name, m := range all {
		selector := any(m.Spec.Selector)
		if inner, ok := m.Spec.Selector["matchLabels"]; ok {
			selector = inner
		}
		if got, _ := json.Marshal(selector); m.Spec.Selector != nil && !bytes.Equal(got, labels) {
			t.Errorf("%s selects %s, and pods are %s", name, got, labels)
		}
		for _, p := range m.Spec.Ports {
			if ports[p.TargetPort] == 0 || strings.HasSuffix(name, "-nodes") && ports[p.TargetPort] != p.Port {
				t.Errorf("%s has the port %+v, and the container %v", name, p, ports)
			}
		}
		if ref := m.Spec.ScaleTargetRef; ref.Kind != "" && all[ref.Kind+" "+ref.Name] != set {
			t.Errorf("%s scales %+v", name, ref)
		}
	}
	ours := func(p peers) bool { return maps.Equal(p.MatchLabels, set.Spec.Template.Metadata.Labels) }
	if spread := pod.Spread; len(spread) != 1 || spread[0].TopologyKey != "kubernetes.io/hostname" || !ours(spread[0].LabelSelector) {
		t.Errorf("pods may stand on one machine: %+v", spread)
	}
	guard := all["NetworkPolicy weir"]
	if guard == nil || !ours(guard.Spec.PodSelector) {
		t.Fatalf("the policy of the network: %+v", guard)
	}
	open := map[string]bool{} // by port: to every pod of the cluster
	for _, rule := range guard.Spec.Ingress {
		for _, p := range rule.Ports {
			open[p.Port] = len(rule.From) == 0
			if ports[p.Port] == 0 || len(rule.From) > 0 && !ours(rule.From[0].PodSelector) {
				t.Errorf("the policy lets %+v in", rule)
			}
		}
	}
	if len(open) != len(ports) || !open["http"] || open["peer"] || open["store"] {
		t.Errorf("the policy opens %v of %v", open, ports)
	}
	scrape := set.Spec.Template.Metadata.Annotations
	reads := slices.ContainsFunc(conf.Auth.Tokens, func(t config.Token) bool { return t.Metrics })
	if scrape["prometheus.io/scrape"] != "true" || scrape["prometheus.io/port"] != strconv.Itoa(ports["http"]) || scrape["prometheus.io/path"] != "/metrics" || !reads {
		t.Errorf("Prometheus reads %v, with a token: %t", scrape, reads)
	}
	if all["PodDisruptionBudget weir"].Spec.MaxUnavailable != 1 {
		t.Error("more than one pod may be away")
	}
}
