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

// InTurn measures ours against theirs, one call of each in turn, so that other load slows both. It
// reports the time and the CPU time of ours (ns/call, cpu-ns/call), and their ratios to the
// baseline (x_baseline, x_cpu).
func InTurn(b *testing.B, ours, theirs func()) {
	b.Helper()
	b.ReportAllocs()
	var sums [2]cost
	b.ResetTimer()
	for range b.N {
		start := now()
		ours()
		between := now()
		theirs()
		sums[0].add(start, between)
		sums[1].add(between, now())
	}
	b.StopTimer()
	b.ReportMetric(float64(sums[0].wall.Nanoseconds())/float64(b.N), "ns/call")
	b.ReportMetric(float64(sums[0].wall)/float64(sums[1].wall), "x_baseline")
	if sums[1].cpu > 0 {
		b.ReportMetric(float64(sums[0].cpu.Nanoseconds())/float64(b.N), "cpu-ns/call")
		b.ReportMetric(float64(sums[0].cpu)/float64(sums[1].cpu), "x_cpu")
	}
	b.ReportMetric(0, "ns/op")
}

// cost is the time and the CPU time of calls.
type cost struct{ wall, cpu time.Duration }

// moment is a point in time, by the clock and by the CPU time of this process.
type moment struct {
	wall time.Time
	cpu  time.Duration
}

func now() moment { return moment{time.Now(), processTime()} }

func (c *cost) add(from, to moment) {
	c.wall += to.wall.Sub(from.wall)
	c.cpu += to.cpu - from.cpu
}
