package socketio

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/wsbench"
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

	ours := wsbench.Dial(b, hs.URL+"/?EIO=4&transport=websocket")
	if _, _, err := ours.ReadMessage(); err != nil {
		b.Fatal(err)
	}
	wsbench.RoundTrip(b, ours, []byte("40"))
	wsbench.Compare(b, ours, []byte("427"+benchEvent))
}

// BenchmarkSplitEvent reads an event's arguments without decoding them; x_baseline is encoding/json into raw messages.
func BenchmarkSplitEvent(b *testing.B) {
	data := []byte(benchEvent)
	b.ReportAllocs()
	began := time.Now()
	for range b.N {
		if _, _, err := splitEvent(data, nil); err != nil {
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
