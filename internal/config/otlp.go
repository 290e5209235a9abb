package config

import (
	"net/netip"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/net/address"
)

// OTLP configures the export of spans.
type OTLP struct {
	URL         string            `key:"url" doc:"The OTLP/HTTP endpoint of a collector, such as http://127.0.0.1:4318. /v1/traces is added if the path does not end so. http works for addresses that are not public. Default: no spans."`
	Headers     map[string]Secret `key:"headers" doc:"HTTP headers sent with each export, best with ${VAR} where they are a key."`
	Sample      float64           `key:"sample" default:"1" doc:"The part of traces, from 0 to 1, that is kept. If a request has a traceparent, its sampled flag decides instead."`
	ServiceName string            `key:"service_name" default:"weir" doc:"service.name in traces."`
	Timeout     time.Duration     `key:"timeout" default:"10s" min:"1ms" doc:"How long one export may take."`
}

// tracesPath is the path of OTLP/HTTP for spans.
const tracesPath = "/v1/traces"

func checkOTLP(d *decoder, c *Config) {
	const key = "otlp"
	o := &c.OTLP
	if o.Sample < 0 || o.Sample > 1 || o.Sample != o.Sample {
		d.Fail(d.At("otlp.sample"), "otlp.sample", "otlp.sample must be from 0 to 1, not %v", o.Sample)
	}
	if o.ServiceName == "" {
		d.Fail(d.At("otlp.service_name"), "otlp.service_name", "otlp.service_name is empty")
	}
	d.checkHeaders(o.Headers, key)
	if o.URL == "" {
		if d.Set(key) {
			d.Fail(d.At(key), key, "otlp has no url; write that of a collector, such as http://127.0.0.1:4318")
		}
		return
	}
	u := d.checkURL(o.URL, "otlp.url")
	if u == nil {
		return
	}
	at := d.At("otlp.url")
	switch ip, known := address.ParseIP(u.Hostname()); {
	case u.User != nil:
		d.Fail(at, "otlp.url", "otlp.url must have no user or password; use otlp.headers: {Authorization: ${VAR}}")
	case u.Fragment != "":
		d.Fail(at, "otlp.url", "otlp.url must have no fragment")
	case u.Scheme == "http" && known && public(ip):
		d.Fail(at, "otlp.url", "otlp.url leads to the public address %s without TLS; use https", ip)
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), tracesPath) {
		u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+tracesPath, ""
	}
	o.URL = u.String()
}

func public(ip netip.Addr) bool { return !address.Private(ip) && !ip.IsLoopback() }
