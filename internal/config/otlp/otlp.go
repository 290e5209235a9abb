// Package otlp is the section otlp of a configuration: where the spans of requests and the metrics go. A gateway has it
// in weir.yaml, a Computer next to its servers.
package otlp

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/observe/otlphttp"
	"github.com/weir-mcp/weir/internal/observe/trace"
)

// Section configures the export of spans and metrics.
type Section struct {
	URL         string                   `key:"url" doc:"The OTLP/HTTP endpoint of a collector, such as http://127.0.0.1:4318. /v1/traces is added if the path does not end so; metrics go to /v1/metrics next to it. http works for addresses that are not public. Default: no spans."`
	Headers     map[string]strict.Secret `key:"headers" doc:"HTTP headers sent with each export, best with ${VAR} where they are a key."`
	Sample      float64                  `key:"sample" default:"1" doc:"The part of traces, from 0 to 1, that is kept. If a request has a traceparent, its sampled flag decides instead."`
	Metrics     time.Duration            `key:"metrics" default:"0" min:"0s" doc:"How often a gateway sends the figures of /metrics, such as 60s; 0 sends none."`
	ServiceName string                   `key:"service_name" default:"weir" doc:"service.name in traces and metrics."`
	Timeout     time.Duration            `key:"timeout" default:"10s" min:"1ms" doc:"How long one export may take."`
}

// The paths of OTLP/HTTP for spans and metrics.
const (
	tracesPath  = "/v1/traces"
	metricsPath = "/v1/metrics"
)

// Check reports the faults of the section at the key otlp, and completes its URL.
func (o *Section) Check(d *strict.Decoder) {
	const key = "otlp"
	if o.Sample < 0 || o.Sample > 1 || o.Sample != o.Sample {
		d.Fail(d.At("otlp.sample"), "otlp.sample", "otlp.sample must be from 0 to 1, not %v", o.Sample)
	}
	if o.ServiceName == "" {
		d.Fail(d.At("otlp.service_name"), "otlp.service_name", "otlp.service_name is empty")
	}
	if o.Metrics > 0 && o.Metrics < minEvery {
		d.Fail(d.At("otlp.metrics"), "otlp.metrics", "otlp.metrics must be %v or more, or 0 for none, not %v", minEvery, o.Metrics)
	}
	d.CheckHeaders(o.Headers, key, strict.Secret.Reveal)
	if o.URL == "" {
		if d.Set(key) {
			d.Fail(d.At(key), key, "otlp has no url; write that of a collector, such as http://127.0.0.1:4318")
		}
		return
	}
	u := d.CheckURL(o.URL, "otlp.url")
	if u == nil {
		return
	}
	at := d.At("otlp.url")
	switch ip, known := address.ParseIP(u.Hostname()); {
	case u.User != nil:
		d.Fail(at, "otlp.url", "otlp.url must have no user or password; use otlp.headers: {Authorization: ${VAR}}")
	case u.Fragment != "":
		d.Fail(at, "otlp.url", "otlp.url must have no fragment")
	case u.Scheme == "http" && known && !address.Private(ip):
		d.Fail(at, "otlp.url", "otlp.url leads to the public address %s without TLS; use https", ip)
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), tracesPath) {
		u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+tracesPath, ""
	}
	o.URL = u.String()
}

// minEvery is the shortest time between two exports of metrics.
const minEvery = time.Second

// MetricsEndpoint returns where metrics go and how often. Without a URL, or without a time, there is none.
func (o *Section) MetricsEndpoint() (to otlphttp.Endpoint, every time.Duration) {
	traces := o.Settings()
	u, err := url.Parse(traces.URL)
	if err != nil || traces.URL == "" || o.Metrics == 0 {
		return otlphttp.Endpoint{}, 0
	}
	u.Path, u.RawPath = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), tracesPath)+metricsPath, ""
	return otlphttp.Endpoint{URL: u.String(), Headers: traces.Headers, Service: traces.Service, Timeout: traces.Timeout}, o.Metrics
}

// Settings returns where spans go, and nowhere if the section has no URL.
func (o *Section) Settings() trace.Settings {
	if o.URL == "" {
		return trace.Settings{}
	}
	headers := map[string]string{}
	for name, value := range o.Headers {
		headers[name] = value.Reveal()
	}
	return trace.Settings{URL: o.URL, Headers: headers, Service: o.ServiceName, Sample: o.Sample, Timeout: o.Timeout}
}

// Read reads a section in JSON that is in a file of another form. Variables of the environment replace
// ${NAME} in its headers.
func Read(section json.RawMessage, lookupEnv func(string) (string, bool)) (*Section, error) {
	const file = "otlp"
	root, err := strict.Read(file+".json", rawjson.Object("otlp", section))
	if err != nil {
		return nil, err
	}
	variables := strict.Variables{Lookup: lookupEnv}
	var d *strict.Decoder
	d = strict.NewDecoder(strict.Options{File: file, Plain: func(string) bool { return false }, Text: func(n *strict.Node, path string, secret bool) (string, bool) {
		if !secret {
			return n.Value, true
		}
		text, err := variables.Expand(n.Value)
		if err != nil {
			d.Report(n, path, err, "%s: %v", path, err)
		}
		return text, err == nil
	}})
	var whole struct {
		OTLP Section `key:"otlp"`
	}
	strict.SetDefaults(&whole)
	d.Decode(root, "", &whole)
	whole.OTLP.Check(d)
	if whole.OTLP.Metrics > 0 {
		d.Fail(d.At("otlp.metrics"), "otlp.metrics", "otlp.metrics is for gateways: a Computer has no /metrics")
	}
	if problems := d.Problems(); len(problems) > 0 {
		return nil, &strict.Error{Problems: problems}
	}
	return &whole.OTLP, nil
}
