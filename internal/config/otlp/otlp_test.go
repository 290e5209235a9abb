package otlp_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/otlp"
)

func environment(name string) (string, bool) { return "secret of " + name, name == "KEY" }

// TestRead: defaults, the completed URL and variables in headers.
func TestRead(t *testing.T) {
	section := `{"url":"http://127.0.0.1:4318/","headers":{"x-key":"${KEY}","x-other":"${OTHER:-none}","x-plain":"$${KEY}"}}`
	read, err := otlp.Read(json.RawMessage(section), environment)
	if err != nil {
		t.Fatal(err)
	}
	to := read.Settings()
	if to.URL != "http://127.0.0.1:4318/v1/traces" || to.Service != "weir" || to.Sample != 1 || to.Timeout != 10*time.Second {
		t.Errorf("%+v", to)
	}
	for name, want := range map[string]string{"x-key": "secret of KEY", "x-other": "none", "x-plain": "${KEY}"} {
		if to.Headers[name] != want {
			t.Errorf("%s: %q", name, to.Headers[name])
		}
	}
	if to := new(otlp.Section).Settings(); to.URL != "" || to.Service != "" {
		t.Errorf("without a URL spans go to %+v", to)
	}
}

// TestMetricsEndpoint: metrics go next to spans, with the same headers, service and timeout.
func TestMetricsEndpoint(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:4318/v1/traces":                "http://127.0.0.1:4318/v1/metrics",
		"https://example.com/otlp/v1/traces/?team=a%2Fb": "https://example.com/otlp/v1/metrics?team=a%2Fb",
	} {
		o := otlp.Section{URL: url, Metrics: time.Minute, ServiceName: "gate", Timeout: time.Second}
		to, every := o.MetricsEndpoint()
		if to.URL != want || every != time.Minute || to.Service != "gate" || to.Timeout != time.Second {
			t.Errorf("%+v every %v, want %s", to, every, want)
		}
	}
	for _, o := range []otlp.Section{{URL: "https://example.com/v1/traces"}, {Metrics: time.Minute}} {
		if to, every := o.MetricsEndpoint(); to.URL != "" || every != 0 {
			t.Errorf("%+v: metrics go to %s", o, to.URL)
		}
	}
}

// TestReadRefuses lists sections that are errors, with a part of the message.
func TestReadRefuses(t *testing.T) {
	for section, want := range map[string]string{
		`7`: "otlp",
		`{"url":"http://127.0.0.1:1","headers":{"x":"${OTHER}"}}`:    "the environment variable OTHER is not set",
		`{"url":"http://127.0.0.1:1","headers":{"x":"${input:id}"}}`: "is not a variable: known are ${VAR}, ${VAR:-default}, ${env:VAR};",
		`{"url":"http://127.0.0.1:1","headers":{"a b":"x"}}`:         "cannot be a header's name",
		`{"url":"http://127.0.0.1:1","headers":{"x":"a\nb"}}`:        "line break",
		`{"url":"http://127.0.0.1:1","unknown":1}`:                   "unknown",
		`{"url":"ftp://example.com"}`:                                "otlp.url must begin with http",
		`{"url":"http://203.0.113.7:4318"}`:                          "",
		`{"url":"http://8.8.8.8:4318"}`:                              "public address",
		`{"url":"https://u:p@example.com"}`:                          "no user or password",
		`{"url":"https://example.com/#a"}`:                           "no fragment",
		`{"url":"https://example.com","sample":2}`:                   "otlp.sample must be from 0 to 1",
		`{"url":"https://example.com","service_name":""}`:            "otlp.service_name is empty",
		`{"sample":1}`: "otlp has no url",
		`{"url":"https://example.com","metrics":"60s"}`: "otlp.metrics is for gateways",
		`{"url":"https://example.com","metrics":"1ms"}`: "otlp.metrics must be 1s or more",
	} {
		_, err := otlp.Read(json.RawMessage(section), environment)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
}
