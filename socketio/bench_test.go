package socketio

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

const benchEvent = `["say","The quick brown fox jumps over the lazy dog",{"n":1,"ok":true}]`

// BenchmarkAck emits an event and waits for its ack; x_baseline is the time that a bare echo server of gorilla/websocket takes
// for frames of the same size, divided by ours. bench/socketio measures against the reference server.
func BenchmarkAck(b *testing.B) {
	server := NewServer(Config{})
	server.Of("/").On("say", func(e *Event) { _ = e.AckPayload(e.Payload) })
	hs := httptest.NewServer(server)
	defer hs.Close()
	defer server.Shutdown(b.Context())
	bare := httptest.NewServer(http.HandlerFunc(bareEcho))
	defer bare.Close()

	ours, theirs := dialBench(b, hs.URL+"/?EIO=4&transport=websocket"), dialBench(b, bare.URL)
	for _, frame := range []string{"", "40"} {
		if frame != "" {
			if err := ours.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
				b.Fatal(err)
			}
		}
		if _, _, err := ours.ReadMessage(); err != nil {
			b.Fatal(err)
		}
	}
	frame := []byte("427" + benchEvent)
	b.ReportAllocs()
	b.ResetTimer()
	began := time.Now()
	for range b.N {
		roundTrip(b, ours, frame)
	}
	took := time.Since(began)
	b.StopTimer()
	began = time.Now()
	for range b.N {
		roundTrip(b, theirs, frame)
	}
	b.ReportMetric(float64(time.Since(began))/float64(took), "x_baseline")
}

func bareEcho(w http.ResponseWriter, r *http.Request) {
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

func dialBench(b *testing.B, url string) *websocket.Conn {
	b.Helper()
	ws, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http"), nil)
	if err != nil {
		b.Fatal(err)
	}
	response.Body.Close()
	b.Cleanup(func() { ws.Close() })
	return ws
}

func roundTrip(b *testing.B, ws *websocket.Conn, frame []byte) {
	if err := ws.WriteMessage(websocket.TextMessage, frame); err != nil {
		b.Fatal(err)
	}
	if _, _, err := ws.ReadMessage(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSplitEvent reads an event's arguments without decoding them; x_baseline is encoding/json into raw messages.
func BenchmarkSplitEvent(b *testing.B) {
	data := []byte(benchEvent)
	b.ReportAllocs()
	began := time.Now()
	for range b.N {
		if _, _, err := splitEvent(data); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	b.StopTimer()
	began = time.Now()
	for range b.N {
		var args []json.RawMessage
		if err := json.Unmarshal(data, &args); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(began))/float64(took), "x_baseline")
}

func BenchmarkEncodeEvent(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d bytes", n), func(b *testing.B) {
			p := Payload{Args: raw(`"` + strings.Repeat("x", n) + `"`)}
			b.ReportAllocs()
			for b.Loop() {
				encodeEvent("/smcp", nil, "client:tool_call", p)
			}
		})
	}
}
