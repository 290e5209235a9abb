package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/memnet"
	"github.com/weir-mcp/weir/internal/telemetry"
)

// A served Console is one behind an HTTP server, on a network in memory.
type served struct {
	*Console
	feed   *Feed
	client *http.Client
}

// serve runs a test with a served Console. Who asks is in the header X-Principal.
func serve(t *testing.T, o Options, f func(t *testing.T, s *served)) {
	t.Helper()
	serveWorld(t, o, false, f)
}

// serveAll is serve for viewers who see the calls of all principals.
func serveAll(t *testing.T, o Options, f func(t *testing.T, s *served)) {
	t.Helper()
	serveWorld(t, o, true, f)
}

func serveWorld(t *testing.T, o Options, all bool, f func(t *testing.T, s *served)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.all = all
		feed := &Feed{}
		o.Gateway, o.Catalog, o.Artifacts, o.Feed = w, w, w, feed
		s := &served{Console: New(o), feed: feed}
		network := memnet.New()
		server := &http.Server{ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Data(w, r.WithContext(guard.WithPrincipal(r.Context(), r.Header.Get("X-Principal"))))
		})}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Serve(network) }()
		transport := &http.Transport{DialContext: network.DialContext}
		s.client = &http.Client{Transport: transport}
		defer func() {
			s.Close()
			transport.CloseIdleConnections()
			_ = server.Close()
			_ = network.Close()
			<-ended
			synctest.Wait()
		}()
		f(t, s)
		synctest.Wait()
		if r := feed.ring.Load(); r != nil && len(r.watchers) != 0 {
			t.Errorf("%d watchers are left", len(r.watchers))
		}
	})
}

// A viewer has a stream, and reads on whether or not a test looks.
type viewer struct {
	t      *testing.T
	lines  chan string
	cancel func()
	body   io.ReadCloser
	last   string // id
}

// open begins a stream that nobody reads.
func (s *served) open(t *testing.T, principal, after string) *viewer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://memory"+DataPath+"events?after="+after, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Principal", principal)
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
	return &viewer{t: t, lines: make(chan string, 10_000), cancel: cancel, body: resp.Body}
}

func (s *served) watch(t *testing.T, principal, after string) *viewer {
	t.Helper()
	v := s.open(t, principal, after)
	go func() {
		defer close(v.lines)
		for lines := bufio.NewScanner(v.body); lines.Scan(); {
			v.lines <- lines.Text()
		}
	}()
	return v
}

func (v *viewer) close() {
	v.cancel()
	_ = v.body.Close()
	synctest.Wait()
}

// next is the next event: its kind and data; "" at the end of the stream.
func (v *viewer) next() (kind string, data map[string]any) {
	v.t.Helper()
	for line := range v.lines {
		switch field, text, _ := strings.Cut(line, ": "); field {
		case "event":
			kind = text
		case "id":
			v.last = text
		case "data":
			if err := json.Unmarshal([]byte(text), &data); err != nil {
				v.t.Fatalf("%v in %q", err, text)
			}
		case "":
			if kind != "" {
				return kind, data
			}
		}
	}
	return "", nil
}

// want reads events and checks whose tools they are about.
func (v *viewer) want(tools ...string) {
	v.t.Helper()
	for _, tool := range tools {
		if kind, data := v.next(); kind != "call" || data["tool_id"] != tool {
			v.t.Fatalf("the next is %q %v, want the call of %s", kind, data, tool)
		}
	}
}

// TestEvents: who watches gets what comes, and what came for others who watched.
func TestEvents(t *testing.T) {
	serveAll(t, Options{}, func(t *testing.T, s *served) {
		s.feed.Observe(call("ann", "before anybody watches"))
		v := s.watch(t, "ann", "")
		s.feed.Observe(call("ann", "one"))
		s.feed.Observe(call("bob", "two"))
		v.want("one", "two")
		hostileCall := call("ann", "three")
		hostileCall.Code, hostileCall.Detail = hostile, strings.Repeat("é", 3*maxDetail)+"\n\nevent: call\ndata: {}\n\n"
		s.feed.Observe(hostileCall)
		kind, data := v.next()
		if kind != "call" || data["code"] != hostile || len(data["detail"].(string)) > maxDetail+3 || data["duration_ms"] != 1.5 || data["tokens_raw"] != 20.0 || data["attempts"] != 1.0 {
			t.Errorf("the event is %v", data)
		}
		late := s.watch(t, "bob", "")
		late.want("one", "two", "three")
		late.close()
		at := v.last
		v.close()
		s.feed.Observe(call("ann", "four")) // nobody watches
		again := s.watch(t, "ann", at)
		again.want("four")
		again.close()
		time.Sleep(2 * keptFor) // longer than a request may take to arrive, too
		s.feed.Observe(call("ann", "five"))
		if s.feed.ring.Load() != nil {
			t.Error("events are collected though nobody has watched for long")
		}
		again = s.watch(t, "ann", at)
		if kind, data := again.next(); kind != "missed" || data["missed"] != 0.0 {
			t.Errorf("after all is gone: %q %v", kind, data)
		}
		time.Sleep(2 * time.Minute) // comments go by, and the time in which a request arrives
		s.feed.Observe(call("ann", "six"))
		again.want("six")
		again.close()
	})
}

// TestEventsOfOthers: where principals are told apart, each sees their own and what
// is nobody's.
func TestEventsOfOthers(t *testing.T) {
	serve(t, Options{}, func(t *testing.T, s *served) {
		v := s.watch(t, "ann", "")
		defer v.close()
		s.feed.Observe(call("bob", "of bob"))
		s.feed.Observe(call("ann", "of ann"))
		s.feed.Observe(call("", "of nobody"))
		s.feed.Observe(call("bob", "of bob"))
		s.feed.Observe(call("ann", "again of ann"))
		v.want("of ann", "of nobody", "again of ann")
	})
}

// TestEventsMissed: more than are kept are not sent, and it is said how many.
func TestEventsMissed(t *testing.T) {
	serveAll(t, Options{}, func(t *testing.T, s *served) {
		v := s.watch(t, "ann", "")
		defer v.close()
		s.feed.Observe(call("ann", "first"))
		v.want("first")
		for i := range feedSize + 100 {
			s.feed.Observe(call("ann", fmt.Sprint(i)))
		}
		if kind, data := v.next(); kind != "missed" || data["missed"] != 100.0 {
			t.Errorf("got %q %v", kind, data)
		}
		for i := 100; i < feedSize+100; i++ {
			v.want(fmt.Sprint(i))
		}
	})
}

// TestEventsForANewcomer: who has read nothing has missed nothing, though more has
// come than is kept.
func TestEventsForANewcomer(t *testing.T) {
	serveAll(t, Options{}, func(t *testing.T, s *served) {
		first := s.watch(t, "ann", "")
		defer first.close()
		for i := range feedSize + 100 {
			s.feed.Observe(call("ann", fmt.Sprint(i)))
		}
		v := s.watch(t, "ann", "")
		defer v.close()
		for i := 100; i < feedSize+100; i++ {
			v.want(fmt.Sprint(i))
		}
	})
}

// TestSlowWatcher: who does not read is let go, and no call waits for them.
func TestSlowWatcher(t *testing.T) {
	serveAll(t, Options{Patience: time.Second}, func(t *testing.T, s *served) {
		slow, quick := s.open(t, "ann", ""), s.watch(t, "ann", "")
		began := time.Now()
		for i := range feedSize {
			s.feed.Observe(call("ann", fmt.Sprint(i)))
		}
		if took := time.Since(began); took != 0 { // time stands still in a bubble unless somebody waits
			t.Errorf("calls waited %v for who does not read", took)
		}
		for i := range feedSize {
			quick.want(fmt.Sprint(i))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		ring := s.feed.ring.Load()
		ring.mu.Lock()
		if n := len(ring.watchers); n != 1 {
			t.Errorf("%d watch, want the quick one", n)
		}
		ring.mu.Unlock()
		s.feed.Observe(call("ann", "last"))
		quick.want("last")
		slow.close()
		quick.close()
	})
}

// TestTooManyWatchers: their number is bounded, and a place is free again as soon
// as one goes.
func TestTooManyWatchers(t *testing.T) {
	serve(t, Options{}, func(t *testing.T, s *served) {
		var all []*viewer
		for range maxWatchers {
			all = append(all, s.watch(t, "ann", ""))
		}
		resp, err := s.client.Get("http://memory" + DataPath + "events")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("one too many: status %d", resp.StatusCode)
		}
		all[3].close()
		all[3] = s.watch(t, "ann", "")
		for _, v := range all {
			v.close()
		}
	})
}

// TestCloseEndsStreams: at once, and for those who come later, too.
func TestCloseEndsStreams(t *testing.T) {
	serve(t, Options{}, func(t *testing.T, s *served) {
		v := s.watch(t, "ann", "")
		s.Close()
		if kind, _ := v.next(); kind != "" {
			t.Errorf("after the end there is %q", kind)
		}
		v.close()
		v = s.watch(t, "ann", "")
		if kind, _ := v.next(); kind != "" {
			t.Errorf("after the end there is %q", kind)
		}
		v.close()
		resp, err := s.client.Head("http://memory" + DataPath + "events")
		if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %v %v", resp, err)
		}
	})
}

// TestFeedCostsNothing: nothing is kept and nothing allocated while nobody watches,
// and no allocation is made for an event when somebody does.
func TestFeedCostsNothing(t *testing.T) {
	feed := &Feed{}
	e := call("ann", "tool")
	if n := testing.AllocsPerRun(100, func() { feed.Observe(e) }); n != 0 || feed.ring.Load() != nil {
		t.Errorf("%v allocations for an event that nobody sees", n)
	}
	w, err := feed.watch()
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { feed.Observe(e) }); n != 0 {
		t.Errorf("%v allocations for an event that somebody sees", n)
	}
	w.leave(time.Now())
	if size := unsafe.Sizeof(Feed{}); size > 64 {
		t.Errorf("a Feed that nobody watches has %d bytes", size)
	}
	if size := unsafe.Sizeof(ring{}); size > 200<<10 {
		t.Errorf("a ring has %d bytes", size)
	}
}

// BenchmarkObserve is what an event costs beside a function that does nothing with
// it: while nobody watches, and while somebody does.
func BenchmarkObserve(b *testing.B) {
	e := call("ann", "tool")
	const rounds = 1_000_000
	began := time.Now()
	for range rounds {
		discard(e)
	}
	baseline := float64(time.Since(began).Nanoseconds()) / rounds
	run := func(name string, feed *Feed) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				feed.Observe(e)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/baseline, "x_baseline")
		})
	}
	run("unwatched", &Feed{})
	watched := &Feed{}
	if _, err := watched.watch(); err != nil {
		b.Fatal(err)
	}
	run("watched", watched)
}

//go:noinline
func discard(telemetry.Event) {}
