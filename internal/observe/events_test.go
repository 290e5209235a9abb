package observe

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// TestOpenEvents: events go to the configured file, or to standard error, or nowhere. An error names the key.
func TestOpenEvents(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if events, err := OpenEvents(parsed(t, ""), os.Stderr, log); events != nil || err != nil {
		t.Errorf("without the key: %v, %v", events, err)
	}
	file := filepath.Join(t.TempDir(), "events.jsonl")
	events, err := OpenEvents(parsed(t, "events: {file: "+file+"}\n"), os.Stderr, log)
	if err != nil {
		t.Fatal(err)
	}
	events.Write(telemetry.Event{Name: telemetry.ExecuteCompleted, Principal: "ann"})
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "ann") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := OpenEvents(parsed(t, "events: {file: "+file+"/below}\n"), os.Stderr, log); err == nil || !strings.Contains(err.Error(), "events.file") {
		t.Errorf("a file below a file: %v", err)
	}
}
