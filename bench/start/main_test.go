package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The table has a row for each thing that a person waits for, measured with the program itself.
func TestTable(t *testing.T) {
	program := filepath.Join(t.TempDir(), "weir")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/weir-mcp/weir/cmd/weir")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-weir", program, "-tools", "200", "-rounds", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"weir --version", "first browse of 200 tools", "weir ls", "weir browse", "weir search", "weir call"} {
		if !strings.Contains(out.String(), "| "+row+" |") {
			t.Errorf("no row for %s:\n%s", row, out.String())
		}
	}
	if err := run(context.Background(), []string{"-weir", filepath.Join(t.TempDir(), "none")}, &out); err == nil {
		t.Error("a program that is not there was measured")
	}
}
