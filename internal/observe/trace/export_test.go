package trace

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
	"github.com/weir-mcp/weir/mcp"
)

// nothing is a handler that answers everything.
var nothing = mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { return json.RawMessage("{}"), nil })

// endpoint is a transport that answers by itself.
type endpoint struct {
	mu    sync.Mutex
	times []time.Duration // of the requests, since the first
	began time.Time
	// answer returns the status, the Retry-After header and the body for a request, counted from 0.
	// Status 0 fails the connection.
	answer func(n int) (status int, retryAfter, body string)
	hang   bool // no request is answered
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	n := len(e.times)
	if n == 0 {
		e.began = time.Now()
	}
	e.times = append(e.times, time.Since(e.began))
	e.mu.Unlock()
	if e.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	status, wait, body := e.answer(n)
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Retry-After": {wait}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// started returns a Tracer with an endpoint of its own, and its log.
func started(t *testing.T, e *endpoint) (*traced, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	x := &traced{}
	x.Tracer = New(Options{Transport: e, Logger: slog.New(slog.NewTextHandler(&log, nil)), Redact: func(s string) string { return strings.ReplaceAll(s, "hush", "***") }})
	if err := x.Configure(Settings{URL: "https://collector.example.com/v1/traces", Sample: 1, Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	return x, &log
}

// one makes one span.
func (x *traced) one(t *testing.T) {
	t.Helper()
	_, err := receiving(x.Tracer, nothing).Serve(t.Context(), request("ping", ""))
	if err != nil {
		t.Error(err)
	}
}

// TestRetry: what may succeed later is sent again, after the time that the collector names, within a
// minute.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(n int) (int, string, string)
		want   telemetry.SpanFigures
		most   int           // requests
		least  time.Duration // between the first two
		log    string
	}{
		{"taken", func(int) (int, string, string) { return 200, "", "{}" }, telemetry.SpanFigures{Sent: 1}, 1, 0, ""},
		{"busy once", func(n int) (int, string, string) {
			if n == 0 {
				return 503, "7", ""
			}
			return 200, "", ""
		}, telemetry.SpanFigures{Sent: 1}, 2, 7 * time.Second, ""},
		{"too many", func(n int) (int, string, string) {
			if n < 2 {
				return 429, "", ""
			}
			return 202, "", ""
		}, telemetry.SpanFigures{Sent: 1}, 3, 500 * time.Millisecond, ""},
		{"down for ever", func(int) (int, string, string) { return 0, "", "" }, telemetry.SpanFigures{Failed: 1}, 9, 500 * time.Millisecond, "connection refused"},
		{"too long a wait", func(int) (int, string, string) { return 503, "3600", "" }, telemetry.SpanFigures{Failed: 1}, 1, 0, "Service Unavailable"},
		{"refused", func(int) (int, string, string) { return 401, "", `{"message":"no hush key"}` }, telemetry.SpanFigures{Failed: 1}, 1, 0, "no *** key"},
		{"redirect", func(int) (int, string, string) { return 307, "", "" }, telemetry.SpanFigures{Failed: 1}, 1, 0, "Temporary Redirect"},
		{"partly", func(int) (int, string, string) {
			return 200, "", `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}`
		}, telemetry.SpanFigures{Rejected: 1}, 1, 0, "too old"},
		{"a warning", func(int) (int, string, string) { return 200, "", `{"partialSuccess":{"errorMessage":"soon"}}` }, telemetry.SpanFigures{Sent: 1}, 1, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{answer: c.answer}
				x, log := started(t, e)
				x.one(t)
				time.Sleep(2 * time.Minute)
				x.Close(t.Context())
				if got := x.Spans(); got != c.want {
					t.Errorf("%+v", got)
				}
				n := len(e.times)
				if n == 0 || n > c.most || n > 1 && e.times[1] < c.least || e.times[n-1] > giveUp {
					t.Errorf("requests at %v", e.times)
				}
				if c.log == "" && log.Len() > 0 || !strings.Contains(log.String(), c.log) {
					t.Errorf("the log: %s", log)
				}
			})
		})
	}
}

// TestOneComplaint: a collector that is down is told of once, and once more when it is back.
func TestOneComplaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := false
		x, log := started(t, &endpoint{answer: func(int) (int, string, string) {
			if up {
				return 200, "", ""
			}
			return 400, "", ""
		}})
		for i := range 6 {
			up = i >= 4
			x.one(t)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		x.Close(t.Context())
		if strings.Count(log.String(), "spans are lost") != 1 || strings.Count(log.String(), "sent again") != 1 {
			t.Error(log)
		}
	})
}

// TestBatches: spans are sent together, when a batch is full or five seconds after the first.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(int) (int, string, string) { return 200, "", "" }}
		x, _ := started(t, e)
		defer x.Close(t.Context())
		x.one(t)
		x.one(t)
		time.Sleep(sendAfter - time.Millisecond)
		synctest.Wait()
		if got := x.Spans(); got.Sent != 0 {
			t.Errorf("%+v before the time", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := x.Spans(); got.Sent != 2 || len(e.times) != 1 {
			t.Errorf("%+v in %d requests", got, len(e.times))
		}
		for range maxBatch {
			x.one(t)
		}
		synctest.Wait() // no time passes
		if got := x.Spans(); got.Sent != 2+maxBatch {
			t.Errorf("%+v with a full batch", got)
		}
	})
}

// TestCollectorHangs: no request waits for the collector, the queue is bounded, and Close ends in
// the time that it is given.
func TestCollectorHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := started(t, &endpoint{hang: true})
		began := time.Now()
		const many = maxQueue + 5*maxBatch
		for range many {
			x.one(t)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("requests waited %v", took)
		}
		dropped := x.Spans().Dropped
		if least := int64(many - maxQueue - maxBatch); dropped < least {
			t.Errorf("%d dropped, want %d", dropped, least)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began = time.Now()
		x.Close(ctx)
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("Close takes %v", took)
		}
		if got := x.Spans(); got.Sent != 0 || got.Dropped+got.Failed != many {
			t.Errorf("%+v", got)
		}
	})
}

// TestLastSpans: Close sends what waits.
func TestLastSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := started(t, &endpoint{answer: func(int) (int, string, string) { return 200, "", "" }})
		for range maxBatch + 10 {
			x.one(t)
		}
		x.Close(t.Context())
		if got := x.Spans(); got.Sent != maxBatch+10 {
			t.Errorf("%+v", got)
		}
	})
}

// TestAnotherEndpoint: spans from before a change go where they were to go, later ones elsewhere.
func TestAnotherEndpoint(t *testing.T) {
	before, after := tracetest.New(t), tracetest.New(t)
	x := &traced{Tracer: New(Options{})}
	set := func(url string) {
		t.Helper()
		s := Settings{URL: url, Sample: 1, Timeout: time.Minute}
		if url != "" {
			s.URL += "/v1/traces"
		}
		if err := x.Configure(s); err != nil {
			t.Fatal(err)
		}
	}
	set(before.URL)
	x.one(t)
	set(before.URL) // nothing changes
	x.one(t)
	set(after.URL)
	x.one(t)
	set("")
	x.one(t)
	x.Close(t.Context())
	if b, a := len(before.Spans()), len(after.Spans()); b != 2 || a != 1 {
		t.Errorf("%d spans before, %d after", b, a)
	}
}
