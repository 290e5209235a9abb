package engineio

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/wsbench"
)

var message = []byte(`2["say","The quick brown fox jumps over the lazy dog",{"n":1}]`)

// BenchmarkEcho sends a message and waits for it to come back; x_baseline is the time that a bare echo server of
// gorilla/websocket takes for the same frames, divided by ours.
func BenchmarkEcho(b *testing.B) {
	server := NewServer(Config{Accept: func(s *Session) Receiver { return echoer{s} }})
	hs := httptest.NewServer(server)
	defer hs.Close()
	defer server.Shutdown(b.Context())

	ours := wsbench.Dial(b, hs.URL+"/?EIO=4&transport=websocket")
	if _, _, err := ours.ReadMessage(); err != nil {
		b.Fatal(err)
	}
	wsbench.Compare(b, ours, append([]byte("4"), message...))
}

type echoer struct{ session *Session }

func (e echoer) Message(data []byte, _ bool) { _ = e.session.Send(Text(data)) }
func (echoer) Pause()                        {}
func (echoer) Closed(Reason, error)          {}

// BenchmarkFrame makes one frame for a hundred sessions; x_baseline is making it for each of them.
func BenchmarkFrame(b *testing.B) {
	const sessions = 100
	b.ReportAllocs()
	queue := make([]Frame, sessions)
	began := time.Now()
	for range b.N {
		f := Text(message)
		for i := range queue {
			queue[i] = f
		}
	}
	took := time.Since(began)
	b.StopTimer()
	began = time.Now()
	for range b.N {
		for i := range queue {
			queue[i] = Text(message)
		}
	}
	b.ReportMetric(float64(time.Since(began))/float64(took), "x_baseline")
}

func BenchmarkDecodePayload(b *testing.B) {
	body := []byte("4hello\x1e4world, this is a longer packet of text\x1ebAQIDBA==\x1e2")
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := decodePayload(body, nil); err != nil {
			b.Fatal(err)
		}
	}
}
