package dataplane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/trail"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// auditedPlane is a plane with a log. The returned function closes the log, and returns the outcomes
// of its views by principal and the whole log.
func auditedPlane(t *testing.T) (p *Plane, store *artifact.Local, read func() (views []string, all string)) {
	t.Helper()
	store, err := artifact.Open(artifact.Options{TokenTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	keys, err := audit.KeysFrom(strings.Repeat("k", 32))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Dir: dir, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	a := trail.New(log, &config.Config{}, trail.Needs{})
	p = newPlane(&Data{Results: store}, &Needs{
		Audited: a.Fetches, Config: func() *config.Config { return &config.Config{Artifacts: config.Artifacts{TokenTTL: time.Minute}} }, Log: slog.New(slog.DiscardHandler),
	})
	return p, store, func() (views []string, all string) {
		log.Close()
		if err := audit.Each(dir, func(raw []byte) bool {
			if rawjson.Text(rawjson.Get(raw, "kind")) == string(audit.View) {
				views = append(views, rawjson.Text(rawjson.Get(raw, "principal"))+" "+rawjson.Text(rawjson.Get(raw, "outcome")))
			}
			all += string(raw) + "\n"
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return views, all
	}
}

// offered returns a resource_url for a table of a principal.
func offered(t *testing.T, p *Plane, store *artifact.Local, principal string) string {
	t.Helper()
	held, err := store.Put(t.Context(), principal, "application/json", "", []byte(`[{"a":1},{"a":2}]`))
	if err != nil {
		t.Fatal(err)
	}
	url, _, err := p.Offer(t.Context(), principal, held.Handle)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// TestFetchesNameTheirPrincipal: at the plane's own listener, too, the record of a fetch names the
// principal that the URL was made for, and the log has no token.
func TestFetchesNameTheirPrincipal(t *testing.T) {
	p, store, read := auditedPlane(t)
	p.StandAlone()
	defer p.Close()
	urls := []string{offered(t, p, store, "ann"), offered(t, p, store, "corp:8a7f")}
	for _, url := range append(urls, urls[0]) { // the last one is spent
		resp, err := http.Post(url, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	p.Close()
	views, all := read()
	if got := strings.Join(views, ", "); got != "ann http OK, corp:8a7f http OK" {
		t.Errorf("views %s", got)
	}
	if n := strings.Count(all, `"kind":"refusal"`); n != 1 {
		t.Errorf("%d refusals in\n%s", n, all)
	}
	for _, url := range urls {
		if token := url[strings.LastIndexByte(url, '/')+1:]; len(token) < 16 || strings.Contains(all, token) {
			t.Errorf("the log has the token %s:\n%s", token, all)
		}
	}
}

// cutWriter fails after the head of a response.
type cutWriter struct {
	*httptest.ResponseRecorder
}

func (cutWriter) Write([]byte) (int, error) { return 0, errors.New("the connection broke") }

// TestInterruptedFetches: a table that was sent in part has a record, too.
func TestInterruptedFetches(t *testing.T) {
	p, store, read := auditedPlane(t)
	p.SetBase("http://127.0.0.1:1")
	url := offered(t, p, store, "ann")
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, plane.Path+url[strings.LastIndexByte(url, '/')+1:], bytes.NewReader(nil))
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the response was not aborted")
			}
		}()
		p.Handler().ServeHTTP(cutWriter{httptest.NewRecorder()}, r)
	}()
	if views, _ := read(); strings.Join(views, ", ") != "ann interrupted" {
		t.Errorf("views %q", views)
	}
}
