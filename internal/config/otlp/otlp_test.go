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
	} {
		_, err := otlp.Read(json.RawMessage(section), environment)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
}
