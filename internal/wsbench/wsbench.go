// Package wsbench is what benchmarks of protocols over WebSocket are measured against, for tests only: a bare echo server of
// gorilla/websocket, the least that a round trip can cost with that library.
//
//	b ─▶ Compare ─┬─▶ ours   ─ frame ─▶ server under test ─▶ answer     b.N times
//	              └─▶ theirs ─ frame ─▶ Echo ─▶ the same frame          b.N times ─▶ x_baseline
//
// It knows nothing of the protocols themselves: the caller has done the handshake before.
package wsbench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// Echo runs the bare server until the test ends and returns its http URL.
func Echo(tb testing.TB) string {
	server := httptest.NewServer(http.HandlerFunc(echo))
	tb.Cleanup(server.Close)
	return server.URL
}

func echo(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	for {
		kind, data, err := ws.ReadMessage()
		if err != nil || ws.WriteMessage(kind, data) != nil {
			return
		}
	}
}

// Dial opens a WebSocket at an http URL, until the test ends.
func Dial(tb testing.TB, url string) *websocket.Conn {
	tb.Helper()
	ws, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	response.Body.Close()
	tb.Cleanup(func() { ws.Close() })
	return ws
}

// RoundTrip sends a frame, a text, and returns the answer.
func RoundTrip(tb testing.TB, ws *websocket.Conn, frame []byte) []byte {
	tb.Helper()
	if err := ws.WriteMessage(websocket.TextMessage, frame); err != nil {
		tb.Fatal(err)
	}
	_, answer, err := ws.ReadMessage()
	if err != nil {
		tb.Fatal(err)
	}
	return answer
}

// Compare measures round trips of a frame on ours, and reports as x_baseline the time that a bare server takes for as many,
// divided by that.
func Compare(b *testing.B, ours *websocket.Conn, frame []byte) {
	b.Helper()
	theirs := Dial(b, Echo(b))
	b.ReportAllocs()
	b.ResetTimer()
	took := repeat(b, ours, frame)
	b.StopTimer()
	b.ReportMetric(float64(repeat(b, theirs, frame))/float64(took), "x_baseline")
}

func repeat(b *testing.B, ws *websocket.Conn, frame []byte) time.Duration {
	began := time.Now()
	for range b.N {
		RoundTrip(b, ws, frame)
	}
	return time.Since(began)
}
