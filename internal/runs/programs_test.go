package runs

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/store"
)

// TestConfiguredPrograms: a runner has the limits of the configuration, and no more memory than one principal is sure to
// get. Large values of a journal are results of the principal whose program has them.
func TestConfiguredPrograms(t *testing.T) {
	c, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\nprograms: {enabled: true, calls: 7, memory: 64MB}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	results, err := artifact.Open(artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = results.Close() }()
	pool := memory.NewPool(memory.Options{Limit: 100 << 20})
	defer pool.Close()
	p := NewPrograms(c, ProgramNeeds{Log: slog.New(slog.DiscardHandler), Docs: store.NewMemory(store.MemoryOptions{}), Memory: pool, Results: results, Tool: "tool_run"})
	defer p.Close(context.WithoutCancel(t.Context()))
	r := p.Runner(c)
	if r == nil || r.Limits.Calls != 7 || r.Limits.Memory != 25<<20 {
		t.Fatalf("%+v", r)
	}
	handle, err := p.journals.o.Keep(t.Context(), "ann", "", "", json.RawMessage(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if value, err := p.journals.o.Kept(t.Context(), "ann", "", handle); err != nil || string(value) != `{"a":1}` {
		t.Errorf("%s, %v", value, err)
	}
	if value, err := p.journals.o.Kept(t.Context(), "bob", "", handle); err == nil {
		t.Errorf("another principal gets %s", value)
	}
	off := *c
	off.Programs.Enabled = false
	if p.Runner(&off) != nil {
		t.Error("programs that are off run")
	}
}
