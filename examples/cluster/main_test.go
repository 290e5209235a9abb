package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if !serveNATS() {
		os.Exit(m.Run())
	}
}

// TestRun: one node is killed, and all promises are kept. It has patience: a machine of CI is slow.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	kept, err := run(t.Context(), []string{"-kill", "2s", "-for", "3s", "-patience", "60s", "-nats=false"}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !kept || !strings.Contains(out.String(), "sessions go on") || !strings.Contains(out.String(), "6 of 6") {
		t.Errorf("a promise was not kept:\n%s", out.String())
	}
}

// TestFlags: flags that kill nothing are refused, and say why.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-kill 10s -for 5s": "nothing would be killed",
		"-nodes 1":          "give it 2 to 9",
		"now":               "is no flag",
	} {
		var out bytes.Buffer
		if _, err := run(t.Context(), strings.Fields(args), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestTable: a row that was not kept makes the whole fail.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	if table(&out, []row{{"a", "1 of 2", false}, {"b", "2 of 2", true}}) || !strings.Contains(out.String(), "NO") {
		t.Errorf("kept:\n%s", out.String())
	}
}
