package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/metrics"
)

// manifest is what a Kubernetes object says that must fit other objects or the product.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Spec     struct {
		Replicas       *int
		ServiceName    string `yaml:"serviceName"`
		Strategy       struct{ Type string }
		MaxUnavailable any                         `yaml:"maxUnavailable"`
		ScaleTargetRef struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		Metrics        []struct {
			Pods struct{ Metric struct{ Name string } }
		}
		Selector any
		Ports    []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Endpoints []struct{ Port, Path string }
		Template  struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		Claims []struct {
			Metadata struct{ Name string }
		} `yaml:"volumeClaimTemplates"`
		PodSelector peers `yaml:"podSelector"` // of a NetworkPolicy, as the rest
		Ingress     []struct {
			From []struct {
				PodSelector peers `yaml:"podSelector"`
			}
			Ports []struct{ Port string }
		}
		Rules []struct {
			Host string
			HTTP struct {
				Paths []struct {
					Backend struct {
						Service struct {
							Name string
							Port struct{ Name string }
						}
					}
				}
			}
		}
	}
}

// pod is the part of a pod that must fit.
type pod struct {
	Grace  int `yaml:"terminationGracePeriodSeconds"`
	Secure struct {
		NonRoot bool                  `yaml:"runAsNonRoot"`
		Seccomp struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Spread []struct {
		TopologyKey   string `yaml:"topologyKey"`
		LabelSelector peers  `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []struct {
		Image string
		Args  []string
		Env   []struct {
			Name, Value string
			ValueFrom   map[string]any `yaml:"valueFrom"`
		}
		Ports []struct {
			Name string
			Port int `yaml:"containerPort"`
		}
		StartupProbe   probe `yaml:"startupProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		Lifecycle      struct {
			PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
		}
		Secure struct {
			ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
			Escalation *bool `yaml:"allowPrivilegeEscalation"`
		} `yaml:"securityContext"`
		Mounts []struct {
			Name string
			Path string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

// peers selects pods by their labels.
type peers struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// selects reports whether the labels of a pod fit.
func (p peers) selects(labels map[string]string) bool {
	for name, value := range p.MatchLabels {
		if labels[name] != value {
			return false
		}
	}
	return len(p.MatchLabels) > 0
}

type probe struct {
	HTTP struct {
		Path, Port, Scheme string
		Headers            []any `yaml:"httpHeaders"`
	} `yaml:"httpGet"`
}

// release is the objects of one file, by kind and name.
type release map[string]*manifest

func readRelease(t *testing.T, file string) release {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := release{}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		m := &manifest{}
		if err := d.Decode(m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if name := m.Kind + " " + m.Metadata.Name; all[name] != nil || m.Metadata.Namespace != "default" {
			t.Fatalf("%s is there twice, or not of the release: %q", name, m.Metadata.Namespace)
		} else {
			all[name] = m
		}
	}
}

// TestKubernetes: the objects that the chart makes fit each other, weir takes their configuration with the ports that
// they open, and their NATS servers run with theirs.
func TestKubernetes(t *testing.T) {
	files, err := filepath.Glob("../../examples/kubernetes/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			all := readRelease(t, file)
			gateways := all.workload(t, "weir.yaml")
			conf := all.configuration(t, gateways)
			checkGateways(t, all, gateways, conf)
			checkPods(t, all)
			checkSelectors(t, all)
			if slices.ContainsFunc(conf.Store.URLs(), func(u string) bool { return strings.Contains(u, "-nats-0.") }) {
				checkNATS(t, all, conf)
			}
		})
	}
}

// workload returns the Deployment or StatefulSet whose pods mount a ConfigMap with a file.
func (r release) workload(t *testing.T, file string) *manifest {
	t.Helper()
	for _, m := range r {
		for _, v := range m.Spec.Template.Spec.Volumes {
			if c := r["ConfigMap "+v.ConfigMap.Name]; c != nil && c.Data[file] != "" {
				return m
			}
		}
	}
	t.Fatalf("no pods have %s", file)
	return nil
}

// file returns a file of the pods' ConfigMaps.
func (r release) file(m *manifest, name string) string {
	for _, v := range m.Spec.Template.Spec.Volumes {
		if c := r["ConfigMap "+v.ConfigMap.Name]; c != nil && c.Data[name] != "" {
			return c.Data[name]
		}
	}
	return ""
}

// configuration reads weir.yaml with the variables of its container.
func (r release) configuration(t *testing.T, m *manifest) *config.Config {
	t.Helper()
	env := map[string]string{}
	key := byte(0)
	for _, v := range m.Spec.Template.Spec.Containers[0].Env {
		switch env[v.Name] = "10.0.0.1"; {
		case strings.HasPrefix(v.Name, "CLUSTER_"):
			key++ // no two keys are the same
			env[v.Name] = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{key}, 32))
		case v.Name == "POD_NAME":
			env[v.Name] = "weir-0"
		}
	}
	conf, warnings, err := config.Parse("/config/weir.yaml", []byte(r.file(m, "weir.yaml")), config.Options{
		Strict: true, LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("the configuration: %v, %v", err, warnings)
	}
	return conf
}

// checkGateways checks what the pods of gateways and the configuration say of each other.
func checkGateways(t *testing.T, all release, m *manifest, conf *config.Config) {
	t.Helper()
	pod := m.Spec.Template.Spec
	c := pod.Containers[0]
	ports := portsOf(m)
	at := func(address string) int {
		_, port, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(port)
		return n
	}
	shared := conf.Store.Shared()
	if ports["http"] != at(conf.Listen) || shared && (ports["peer"] != at(conf.Cluster.Listen) || ports["peer"] != at(conf.Cluster.Advertise)) || !shared && len(ports) != 1 {
		t.Errorf("ports %v, and weir listens at %s and %s", ports, conf.Listen, conf.Cluster.Listen)
	}
	scheme := "HTTP"
	if conf.TLS.Cert != "" {
		scheme = "HTTPS"
	}
	for want, p := range map[string][]probe{"/readyz": {c.ReadinessProbe}, "/healthz": {c.StartupProbe, c.LivenessProbe}} {
		for _, one := range p {
			// weir answers to the address of the pod, which is the kubelet's Host header, whatever names are allowed.
			if one.HTTP.Path != want || one.HTTP.Port != "http" || one.HTTP.Scheme != scheme || len(one.HTTP.Headers) > 0 {
				t.Errorf("a probe asks %+v, want %s", one, want)
			}
		}
	}
	if got := strings.Join(c.Args, " "); !strings.HasPrefix(got, "serve --config /config/weir.yaml") {
		t.Errorf("arguments %s", got)
	}
	drain := drainTime(conf, true)
	if spare := time.Duration(pod.Grace-c.Lifecycle.PreStop.Sleep.Seconds)*time.Second - drain; spare < 10*time.Second || spare > time.Minute {
		t.Errorf("the pod has %d s to end and sleeps for %d, and weir drains for %v", pod.Grace, c.Lifecycle.PreStop.Sleep.Seconds, drain)
	}
	switch many := m.Spec.Replicas == nil || *m.Spec.Replicas > 1; {
	case many && !shared:
		t.Error("several gateways have no store that they share")
	case m.Kind == "Deployment" && (m.Spec.Strategy.Type == "Recreate") == shared:
		t.Errorf("gateways that share a store (%t) are replaced by %s", shared, m.Spec.Strategy.Type)
	}
	if dir := conf.Store.Dir(); dir != "" && !strings.HasPrefix(dir, "/state/") {
		t.Errorf("the store is at %s", dir)
	}
	if hosts := conf.HTTP.AllowedHosts; conf.PublicURL != "" && !slices.Contains(hosts, m.Metadata.Name+".default.svc") {
		t.Errorf("clients in the cluster are refused: %v", hosts)
	}
	for name, other := range all {
		for _, rule := range other.Spec.Rules {
			if u, err := url.Parse(conf.PublicURL); err != nil || u.Hostname() != rule.Host {
				t.Errorf("%s has the host %s, and public_url is %s", name, rule.Host, conf.PublicURL)
			}
		}
		for range other.Spec.Endpoints {
			if !slices.ContainsFunc(conf.Auth.Tokens, func(t config.Token) bool { return t.Metrics }) {
				t.Errorf("%s has no token that reads /metrics", name)
			}
		}
	}
}

// portsOf returns the ports of the first container by name.
func portsOf(m *manifest) map[string]int {
	ports := map[string]int{}
	for _, p := range m.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = p.Port
	}
	return ports
}

// checkPods checks that the pods have the volumes that they mount, and no rights that they do not need.
func checkPods(t *testing.T, all release) {
	t.Helper()
	for name, m := range all {
		pod := m.Spec.Template.Spec
		if len(pod.Containers) == 0 {
			continue
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
			if v.ConfigMap.Name != "" && all["ConfigMap "+v.ConfigMap.Name] == nil && v.ConfigMap.Name != "skills" {
				t.Errorf("%s: the volume %s has no ConfigMap", name, v.Name)
			}
		}
		for _, claim := range m.Spec.Claims {
			volumes[claim.Metadata.Name] = true
		}
		c := pod.Containers[0]
		for _, mount := range c.Mounts {
			if !volumes[mount.Name] {
				t.Errorf("%s: %s mounts the volume %q, which there is not", name, mount.Path, mount.Name)
			}
		}
		if !pod.Secure.NonRoot || pod.Secure.Seccomp.Type != "RuntimeDefault" || !c.Secure.ReadOnly || c.Secure.Escalation == nil || *c.Secure.Escalation {
			t.Errorf("%s: the pod may do too much: %+v, %+v", name, pod.Secure, c.Secure)
		}
		if len(pod.Spread) != 1 {
			t.Errorf("%s: pods may stand on one machine: %+v", name, pod.Spread)
		} else if s := pod.Spread[0]; !s.LabelSelector.selects(m.Spec.Template.Metadata.Labels) {
			t.Errorf("%s: other pods are spread: %+v", name, s)
		}
	}
}

// checkSelectors checks that each object that selects pods selects the pods of one workload, and ports that they have.
func checkSelectors(t *testing.T, all release) {
	t.Helper()
	var sets []*manifest
	for _, m := range all {
		if len(m.Spec.Template.Spec.Containers) > 0 {
			sets = append(sets, m)
		}
	}
	chosen := func(name string, p peers) *manifest {
		var found *manifest
		for _, set := range sets {
			if p.selects(set.Spec.Template.Metadata.Labels) {
				if found != nil {
					t.Errorf("%s selects pods of two kinds", name)
				}
				found = set
			}
		}
		if found == nil {
			t.Fatalf("%s selects no pods: %v", name, p)
		}
		return found
	}
	for name, m := range all {
		switch m.Kind {
		case "Deployment", "StatefulSet":
			if chosen(name, selectorOf(t, m)) != m || m.Spec.ServiceName != "" && all["Service "+m.Spec.ServiceName] == nil {
				t.Errorf("%s has pods of others, or no Service %s", name, m.Spec.ServiceName)
			}
		case "PodDisruptionBudget":
			if chosen(name, selectorOf(t, m)); m.Spec.MaxUnavailable != 1 {
				t.Errorf("%s: more than one pod may be away", name)
			}
		case "Service":
			ports := portsOf(chosen(name, selectorOf(t, m)))
			for _, p := range m.Spec.Ports {
				if ports[p.TargetPort] == 0 {
					t.Errorf("%s has the port %+v, and the container %v", name, p, ports)
				}
			}
		case "HorizontalPodAutoscaler":
			set := all[m.Spec.ScaleTargetRef.Kind+" "+m.Spec.ScaleTargetRef.Name]
			if set == nil || set.Spec.Replicas != nil {
				t.Errorf("%s scales %+v, which has a number of its own or is not there", name, m.Spec.ScaleTargetRef)
			}
			for _, one := range m.Spec.Metrics {
				if got := one.Pods.Metric.Name; got != "" && !exposed(got) {
					t.Errorf("weir has no metric %s", got)
				}
			}
		case "NetworkPolicy":
			checkNetwork(t, name, m, chosen)
		case "Ingress":
			for _, rule := range m.Spec.Rules {
				back := rule.HTTP.Paths[0].Backend.Service
				service := all["Service "+back.Name]
				if service == nil || service.Spec.Ports[0].Name != back.Port.Name {
					t.Errorf("%s leads to %+v", name, back)
				}
			}
		}
	}
}

// selectorOf returns the labels that an object selects: Services have them without matchLabels.
func selectorOf(t *testing.T, m *manifest) (p peers) {
	t.Helper()
	text, err := yaml.Marshal(m.Spec.Selector)
	if err == nil && m.Kind == "Service" {
		err = yaml.Unmarshal(text, &p.MatchLabels)
	} else if err == nil {
		err = yaml.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// exposed reports whether /metrics has a figure of this name while a call is at a server.
func exposed(name string) bool {
	m := metrics.NewMetrics(metrics.Totals{})
	m.RequestStarted("a")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return strings.Contains(w.Body.String(), "\n"+name+"{")
}

// checkNetwork checks that a policy lets clients reach only the port for requests, and each other port by pods that
// the policy of these names.
func checkNetwork(t *testing.T, name string, m *manifest, chosen func(string, peers) *manifest) {
	t.Helper()
	ports := portsOf(chosen(name, m.Spec.PodSelector))
	open := map[string]bool{} // by port: to pods of others
	for _, rule := range m.Spec.Ingress {
		for _, p := range rule.Ports {
			open[p.Port] = len(rule.From) == 0 || len(rule.From[0].PodSelector.MatchLabels) == 0
			if ports[p.Port] == 0 {
				t.Errorf("%s opens %s of %v", name, p.Port, ports)
			}
			if !open[p.Port] {
				chosen(name, rule.From[0].PodSelector)
			}
		}
	}
	delete(ports, "monitor") // only for the kubelet, which no policy stops
	if want := map[string]bool{"http": true, "peer": false, "nats": false, "routes": false}; len(open) != len(ports) {
		t.Errorf("%s opens %v of %v", name, open, ports)
	} else {
		maps.DeleteFunc(want, func(port string, _ bool) bool { return ports[port] == 0 })
		if !maps.Equal(open, want) {
			t.Errorf("%s opens %v, want %v", name, open, want)
		}
	}
}

// checkNATS starts a NATS server with the file of the pods, asks what the probes ask, and signs in as gateways do.
func checkNATS(t *testing.T, all release, conf *config.Config) {
	t.Helper()
	m := all.workload(t, "nats.conf")
	c := m.Spec.Template.Spec.Containers[0]
	if want := "nats:" + natsserver.VERSION; c.Image != want {
		t.Errorf("the image is %s, and tests use %s", c.Image, want)
	}
	for _, v := range c.Env {
		if v.Name == "NATS_PASSWORD" {
			t.Setenv(v.Name, strings.ReplaceAll(v.Value, "$(PASSWORD)", "1e5"))
		}
	}
	t.Setenv("POD_NAME", m.Metadata.Name+"-0")
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(all.file(m, "nats.conf")), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := natsserver.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ports := portsOf(m)
	if o.Username != "weir" || o.Password != "1e5" || o.Port != ports["nats"] || o.HTTPPort != ports["monitor"] || o.Cluster.Port != ports["routes"] || o.StoreDir != "/data" || !o.SyncAlways {
		t.Errorf("NATS reads %+v", o)
	}
	var routes, stores []string
	for _, u := range o.Routes {
		routes = append(routes, u.Hostname())
	}
	for _, s := range conf.Store.URLs() {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		if stores = append(stores, u.Hostname()); u.Port() != strconv.Itoa(ports["nats"]) || u.User.Username() != o.Username {
			t.Errorf("weir connects to %s", s)
		}
	}
	var want []string
	for i := range *m.Spec.Replicas {
		want = append(want, fmt.Sprintf("%s-%d.%s", m.Metadata.Name, i, m.Spec.ServiceName))
	}
	if !slices.Equal(stores, want) || !slices.Equal(routes, want) {
		t.Errorf("weir connects to %v, the servers to %v: want %v", stores, routes, want)
	}
	o.Host, o.Port, o.HTTPHost, o.HTTPPort = "127.0.0.1", natsserver.RANDOM_PORT, "127.0.0.1", natsserver.RANDOM_PORT
	o.StoreDir, o.PidFile, o.Routes, o.Cluster = t.TempDir(), "", nil, natsserver.ClusterOpts{}
	o.NoSigs, o.NoLog = true, true
	s, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	for _, p := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		resp, err := http.Get("http://" + s.MonitorAddr().String() + p.HTTP.Path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK || p.HTTP.Port != "monitor" {
			t.Errorf("the probe %+v gets %s", p.HTTP, resp.Status)
		}
	}
	if _, err := nats.Connect(s.ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stranger gets %v", err)
	}
	conn, err := nats.Connect(s.ClientURL(), nats.UserInfo("weir", "1e5"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
