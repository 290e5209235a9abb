package history

import (
	"bytes"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// TestExchanges: the last ones are kept within the bounds, the ring of events has none, and none is
// kept unless that is switched on.
func TestExchanges(t *testing.T) {
	var b Book
	observe := func(size int) {
		b.Observe(telemetry.Event{Time: time.Now(), Name: "x", MetaTool: "tool_execute", Exchange: &telemetry.Exchange{Arguments: bytes.Repeat([]byte("a"), size)}})
	}
	observe(1)
	if b.exchanges.bytes != 0 {
		t.Error("one is kept that nothing asked for")
	}
	b = Book{}
	b.KeepExchanges(true)
	for range KeptExchanges + 5 {
		observe(1)
	}
	if b.Exchange(4) != nil || b.Exchange(5) == nil || b.Exchange(KeptExchanges+4) == nil || b.exchanges.bytes != KeptExchanges {
		t.Errorf("%d are kept, %d bytes", len(b.exchanges.all), b.exchanges.bytes)
	}
	found, _ := b.Recent(1<<62, 1, func(*telemetry.Event) bool { return true })
	if found[0].Exchange != nil {
		t.Error("the ring of events keeps an exchange")
	}
	for range 20 {
		observe(1 << 20)
	}
	if n := len(b.exchanges.all); n != 16 || b.exchanges.bytes != maxExchanged || b.Exchange(KeptExchanges+24) == nil {
		t.Errorf("%d are kept, %d bytes", n, b.exchanges.bytes)
	}
	b.KeepExchanges(false)
	if observe(1); b.Exchange(KeptExchanges+24) != nil || b.exchanges.bytes != 0 { // of a call that began before
		t.Error("one is kept that should be forgotten")
	}
}
