package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// BenchmarkHop calls tool_execute in a session at its node and at another one, in turns with requests of the same sizes
// that net/http sends over TLS. The metrics are the processor time of a call at its node, what the hop adds to it, what
// net/http takes for a bare request in the same run, and the time at the other node as a multiple.
func BenchmarkHop(b *testing.B) {
	for _, size := range []int{5, large} {
		b.Run(strconv.Itoa(size), func(b *testing.B) { benchmarkHop(b, size) })
	}
}

func benchmarkHop(b *testing.B, size int) {
	g, err := start(2)
	defer g.end()
	if err != nil {
		b.Fatal(err)
	}
	id, err := echoID(g.nodes[0])
	if err != nil {
		b.Fatal(err)
	}
	session, _, err := g.nodes[0].open("/mcp")
	if err != nil {
		b.Fatal(err)
	}
	params := fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"text":%q}}}`, id, strings.Repeat("x", size))
	bare := newBare(session, params)
	defer bare.Close()
	var cpu [3]time.Duration
	var all [2][]time.Duration
	for b.Loop() {
		for i, n := range g.nodes {
			used := telemetry.CPU()
			for range turn {
				took, err := n.call("/mcp", session, "tools/call", params, "x")
				if err != nil {
					b.Fatal(err)
				}
				all[i] = append(all[i], took)
			}
			cpu[i] += telemetry.CPU() - used
		}
		used := telemetry.CPU()
		for range turn {
			if err := bare.send(); err != nil {
				b.Fatal(err)
			}
		}
		cpu[2] += telemetry.CPU() - used
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(len(all[0])) }
	b.ReportMetric(micros(cpu[0]), "same_us")
	b.ReportMetric(micros(cpu[1]-cpu[0]), "added_us")
	b.ReportMetric(micros(cpu[2]), "bare_us")
	b.ReportMetric(float64(median(all[1]))/float64(median(all[0])), "p50_ratio")
}

// bareHop is a request of net/http over TLS.
type bareHop struct {
	*httptest.Server
	session, body string
}

func newBare(session, body string) *bareHop {
	return &bareHop{httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	})), session, body}
}

func (h *bareHop) send() error {
	r, err := http.NewRequest(http.MethodPost, h.URL+"/mcp", strings.NewReader(h.body))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {h.session}}
	resp, err := h.Client().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
