package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

// batches are Events in memory; an empty one is a store that is away.
type batches []string

func (b batches) Before(context.Context, time.Time) (uint64, error) {
	if len(b) == 0 {
		return 0, store.ErrUnavailable
	}
	return 0, nil
}

func (b batches) Next(_ context.Context, after uint64) (m natsstore.EventsMessage, ok bool, err error) {
	if len(b) == 0 {
		return m, false, store.ErrUnavailable
	}
	if after >= uint64(len(b)) {
		return m, false, nil
	}
	return natsstore.EventsMessage{Seq: after + 1, Body: []byte(b[after])}, true, nil
}

// TestEventLog: events come in order, from a time on; what cannot be read is an error that says why.
func TestEventLog(t *testing.T) {
	const early, late = `{"time":"2027-01-01T08:00:00.5Z","event":"a"}` + "\n", `{"time":"2027-01-01T09:00:00Z","event":"b"}` + "\n"
	for _, test := range []struct {
		kept   Events
		query  string
		status int
		want   string
	}{
		{batches{early + late, late}, "", http.StatusOK, early + late + late},
		{batches{early + late, late}, "?since=2027-01-01T08:30:00Z", http.StatusOK, late + late},
		{batches{early}, "?since=2028-01-01T08:30:00Z", http.StatusOK, ""},
		{batches{early}, "?since=today", http.StatusBadRequest, "since=today"},
		{batches{early}, "?follow=perhaps", http.StatusBadRequest, "follow=perhaps"},
		{batches{}, "", http.StatusServiceUnavailable, "the events cannot be read"},
		{batches{}, "?since=2027-01-01T08:30:00Z", http.StatusServiceUnavailable, "the events cannot be read"},
		{nil, "", http.StatusNotFound, "events: {stream: true}"},
	} {
		a := New(Options{Key: "the-key-of-the-operator", Events: test.kept})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+Path+"events"+test.query, nil)
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a credential: %d", test.query, w.Code)
		}
		r.Header.Set("Authorization", "Bearer the-key-of-the-operator")
		w = httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if got := w.Body.String(); w.Code != test.status || !strings.Contains(got, test.want) || w.Code == http.StatusOK && got != test.want {
			t.Errorf("%s: %d %s", test.query, w.Code, got)
		}
		a.Close()
	}
}

// TestEventLogFollows: a reader that follows gets what comes later, until the API ends.
func TestEventLogFollows(t *testing.T) {
	a := New(Options{Key: "the-key-of-the-operator", Events: batches{"{}\n"}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+Path+"events?follow=1", nil)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Authorization", "Bearer the-key-of-the-operator")
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		a.ServeHTTP(w, r)
	}()
	a.Close()
	<-done
	if got := w.Body.String(); w.Code != http.StatusOK || got != "{}\n" {
		t.Errorf("%d %s", w.Code, got)
	}
}
