package tracetest

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Span is a span as a collector reads it. Attributes has numbers as texts.
type Span struct {
	Service                        string
	Trace, ID, Parent, State, Name string
	Kind                           string // "server" or "client"
	Flags                          uint32
	Start, End                     time.Time
	Failed                         bool
	Attributes                     map[string]string
}

// Collector takes spans and metrics until its test ends.
type Collector struct {
	URL string // without a path

	t      testing.TB
	mu     sync.Mutex // guards below
	spans  []Span
	bodies []string
	header http.Header

	points  map[string]Point
	exports int // of metrics
}

// New starts a Collector on a free port.
func New(t testing.TB) *Collector {
	c := &Collector{t: t}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	var spans []Span
	var points map[string]Point
	if err == nil && r.URL.Path == "/v1/metrics" {
		points, err = decodeMetrics(body)
	} else if err == nil {
		spans, err = decode(body)
	}
	if err != nil {
		c.t.Errorf("an export that is no OTLP: %v\n%s", err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.header = r.Header.Clone(); points != nil {
		c.points = points
		c.exports++
	} else {
		c.spans, c.bodies = append(c.spans, spans...), append(c.bodies, string(body))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"partialSuccess":{}}`) // the test sees the missing spans
}

// Spans returns the spans so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Bodies returns the JSON of each export so far.
func (c *Collector) Bodies() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.bodies...)
}

// Header returns the headers of the last export.
func (c *Collector) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// The types below are the types of OTLP's JSON: members in lowerCamelCase, ids in hexadecimal,
// 64-bit numbers as texts, enumerations as numbers. Unknown members are an error here, so that a
// misspelt one is found; a collector would ignore it.
type (
	request struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []attribute `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Scope struct {
					Name string `json:"name"`
				} `json:"scope"`
				Spans []wireSpan `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	wireSpan struct {
		TraceID           string      `json:"traceId"`
		SpanID            string      `json:"spanId"`
		ParentSpanID      *string     `json:"parentSpanId"`
		TraceState        string      `json:"traceState"`
		Flags             uint32      `json:"flags"`
		Name              string      `json:"name"`
		Kind              int         `json:"kind"`
		StartTimeUnixNano string      `json:"startTimeUnixNano"`
		EndTimeUnixNano   string      `json:"endTimeUnixNano"`
		Attributes        []attribute `json:"attributes"`
		Status            *struct {
			Code int `json:"code"`
		} `json:"status"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value struct {
			String *string `json:"stringValue"`
			Int    *string `json:"intValue"`
		} `json:"value"`
	}
)

// read reads an export.
func read(r *http.Request) (body []byte, err error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" && r.URL.Path != "/v1/metrics" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Content-Encoding") != "gzip" {
		return nil, fmt.Errorf("%s %s with %v", r.Method, r.URL.Path, r.Header)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func decode(raw []byte) (spans []Span, err error) {
	var in request
	if err := strict(raw, &in); err != nil {
		return nil, err
	}
	for _, resource := range in.ResourceSpans {
		of, err := attributes(resource.Resource.Attributes)
		if err != nil || of["service.name"] == "" {
			return nil, fmt.Errorf("the resource %v: %w", of, err)
		}
		for _, scope := range resource.ScopeSpans {
			for _, w := range scope.Spans {
				s, err := w.span()
				if err != nil {
					return nil, fmt.Errorf("span %q: %w", w.Name, err)
				}
				s.Service = of["service.name"]
				spans = append(spans, s)
			}
		}
	}
	if len(spans) == 0 {
		err = fmt.Errorf("an export without spans")
	}
	return spans, err
}

func (w *wireSpan) span() (s Span, err error) {
	s = Span{Trace: w.TraceID, ID: w.SpanID, State: w.TraceState, Name: w.Name, Flags: w.Flags, Kind: map[int]string{2: "server", 3: "client"}[w.Kind]}
	if err = errorOf(hexadecimal(w.TraceID, 32), hexadecimal(w.SpanID, 16)); err != nil {
		return s, err
	}
	if w.ParentSpanID != nil {
		s.Parent = *w.ParentSpanID
		if err := hexadecimal(s.Parent, 16); err != nil {
			return s, err
		}
	}
	if s.Start, err = at(w.StartTimeUnixNano); err != nil {
		return s, err
	}
	if s.End, err = at(w.EndTimeUnixNano); err != nil {
		return s, err
	}
	if w.Status != nil {
		if s.Failed = w.Status.Code == 2; !s.Failed {
			return s, fmt.Errorf("the status %d", w.Status.Code)
		}
	}
	s.Attributes, err = attributes(w.Attributes)
	if err == nil && (s.Name == "" || s.Kind == "" || s.End.Before(s.Start)) {
		err = fmt.Errorf("%+v", s)
	}
	return s, err
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func hexadecimal(id string, digits int) error {
	raw, err := hex.DecodeString(id)
	if err == nil && (len(id) != digits || string(raw) == string(make([]byte, len(raw)))) {
		err = fmt.Errorf("%q is no id of %d digits", id, digits)
	}
	return err
}

func at(nanoseconds string) (time.Time, error) {
	n, err := strconv.ParseUint(nanoseconds, 10, 63)
	return time.Unix(0, int64(n)), err
}

func attributes(list []attribute) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range list {
		if _, twice := out[a.Key]; twice || a.Key == "" {
			return nil, fmt.Errorf("the attribute %q is there twice", a.Key)
		}
		switch {
		case a.Value.String != nil && a.Value.Int == nil:
			out[a.Key] = *a.Value.String
		case a.Value.Int != nil && a.Value.String == nil:
			if _, err := strconv.ParseInt(*a.Value.Int, 10, 64); err != nil {
				return nil, err
			}
			out[a.Key] = *a.Value.Int
		default:
			return nil, fmt.Errorf("the value of %q", a.Key)
		}
	}
	return out, nil
}

// strict decodes JSON and refuses unknown members.
func strict(raw []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	return in.Decode(into)
}
