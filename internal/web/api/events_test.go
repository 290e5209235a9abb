package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/observe/history"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
)

// A served API is one behind an HTTP server, on a network in memory.
type served struct {
	*API
	feed   *history.Book
	client *http.Client
}

// serve runs a test with a served API. Who asks is in the header X-Principal.
func serve(t *testing.T, o Look, f func(t *testing.T, s *served)) {
	t.Helper()
	serveWorld(t, o, false, f)
}

// serveAll is serve for viewers who see the calls of all principals.
func serveAll(t *testing.T, o Look, f func(t *testing.T, s *served)) {
	t.Helper()
	serveWorld(t, o, true, f)
}

func serveWorld(t *testing.T, o Look, all bool, f func(t *testing.T, s *served)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.all = all
		feed := &history.Book{}
		o.Gateway, o.Catalog, o.Artifacts, o.History, o.Guard = w, w, w, feed, w.look(feed).Guard
		s := &served{API: New(Options{Look: o}), feed: feed}
		network := memnet.New()
		server := &http.Server{ReadTimeout: time.Minute, Handler: s.API}
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
		if n := watchers(feed); n != 0 {
			t.Errorf("%d watchers are left", n)
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
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://memory"+Path+"calls/stream?after="+after, nil)
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
	serveAll(t, Look{}, func(t *testing.T, s *served) {
		s.feed.Observe(call("ann", "before"))
		v := s.watch(t, "ann", "")
		v.want("before")
		s.feed.Observe(call("ann", "one"))
		s.feed.Observe(call("bob", "two"))
		v.want("one", "two")
		hostileCall := call("ann", "three")
		hostileCall.Code, hostileCall.Detail = hostile, strings.Repeat("é", 1500)+"\n\nevent: call\ndata: {}\n\n"
		hostileCall.Client, hostileCall.Decision, hostileCall.Rule = hostile, "allow", "policy.rules[1]"
		s.feed.Observe(hostileCall)
		kind, data := v.next()
		if kind != "call" || data["code"] != hostile || utf8.RuneCountInString(data["detail"].(string)) > 500 || data["duration_ms"] != 1.5 || data["tokens_raw"] != 20.0 || data["attempts"] != 1.0 {
			t.Errorf("the event is %v", data)
		}
		if data["client"] != hostile || data["decision"] != "allow" || data["rule"] != "policy.rules[1]" {
			t.Errorf("the event is %v", data)
		}
		_, answer := ask(t, s.API, "ann", "calls?limit=1")
		if one := answer["calls"].([]any)[0].(map[string]any); one["client"] != hostile || one["decision"] != "allow" || one["rule"] != "policy.rules[1]" {
			t.Errorf("the call is %v", one)
		}
		late := s.watch(t, "bob", "")
		late.want("before", "one", "two", "three")
		late.close()
		at := v.last
		v.close()
		s.feed.Observe(call("ann", "four")) // nobody watches
		again := s.watch(t, "ann", at)
		again.want("four")
		again.close()
		again = s.watch(t, "ann", "other."+strings.TrimPrefix(at, s.feed.Run()+"."))
		if kind, data := again.next(); kind != "missed" || data["missed"] != 0.0 {
			t.Errorf("after an event of another run: %q %v", kind, data)
		}
		again.close()
	})
}

// TestEventsOfOthers: where principals are told apart, each sees their own and what
// is nobody's.
func TestEventsOfOthers(t *testing.T) {
	serve(t, Look{}, func(t *testing.T, s *served) {
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
	serveAll(t, Look{}, func(t *testing.T, s *served) {
		v := s.watch(t, "ann", "")
		defer v.close()
		s.feed.Observe(call("ann", "first"))
		v.want("first")
		for i := range history.Kept + 100 {
			s.feed.Observe(call("ann", fmt.Sprint(i)))
		}
		if kind, data := v.next(); kind != "missed" || data["missed"] != 100.0 {
			t.Errorf("got %q %v", kind, data)
		}
		for i := 100; i < history.Kept+100; i++ {
			v.want(fmt.Sprint(i))
		}
	})
}

// TestEventsForANewcomer: who has read nothing has missed nothing, though more has
// come than is kept.
func TestEventsForANewcomer(t *testing.T) {
	serveAll(t, Look{}, func(t *testing.T, s *served) {
		first := s.watch(t, "ann", "")
		defer first.close()
		for i := range history.Kept + 100 {
			s.feed.Observe(call("ann", fmt.Sprint(i)))
		}
		v := s.watch(t, "ann", "")
		defer v.close()
		for i := 100; i < history.Kept+100; i++ {
			v.want(fmt.Sprint(i))
		}
	})
}

// TestSlowWatcher: who does not read is let go, and no call waits for them.
func TestSlowWatcher(t *testing.T) {
	serveAll(t, Look{Patience: time.Second}, func(t *testing.T, s *served) {
		slow, quick := s.open(t, "ann", ""), s.watch(t, "ann", "")
		began := time.Now()
		for i := range history.Kept {
			s.feed.Observe(call("ann", fmt.Sprint(i)))
		}
		if took := time.Since(began); took != 0 { // time stands still in a bubble unless somebody waits
			t.Errorf("calls waited %v for who does not read", took)
		}
		for i := range history.Kept {
			quick.want(fmt.Sprint(i))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := watchers(s.feed); n != 1 {
			t.Errorf("%d watch, want the quick one", n)
		}
		s.feed.Observe(call("ann", "last"))
		quick.want("last")
		slow.close()
		quick.close()
	})
}

// TestTooManyWatchers: their number is bounded for each principal, so that one leaves places to
// others, and a place is free again as soon as one goes.
func TestTooManyWatchers(t *testing.T) {
	serve(t, Look{}, func(t *testing.T, s *served) {
		var all []*viewer
		for range 4 {
			all = append(all, s.watch(t, "ann", ""))
		}
		all = append(all, s.watch(t, "bob", ""))
		r, err := http.NewRequest(http.MethodGet, "http://memory"+Path+"calls/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Principal", "ann")
		resp, err := s.client.Do(r)
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
	serve(t, Look{}, func(t *testing.T, s *served) {
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
		resp, err := s.client.Head("http://memory" + Path + "calls/stream")
		if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %v %v", resp, err)
		}
	})
}

// watchers counts those who watch a Book, by the number that may still come.
func watchers(book *history.Book) int {
	var more []*history.Watcher
	for i := 0; ; i++ {
		w, err := book.Watch("one of many " + strconv.Itoa(i))
		if err != nil {
			break
		}
		more = append(more, w)
	}
	for _, w := range more {
		w.Leave()
	}
	return 64 - len(more)
}
