package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asComputers {
		main()
		return
	}
	os.Exit(m.Run())
}

// The table has a row for each size, with all figures.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"3", "1", "2"}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[2], "| 1 |") || !strings.HasPrefix(lines[3], "| 2 |") || strings.Count(lines[3], "|") != strings.Count(lines[0], "|") {
		t.Errorf("%s", out.String())
	}
	for _, f := range figures {
		if !strings.Contains(out.String(), "\n| "+f.name+" | at ") {
			t.Errorf("no verdict on %s", f.name)
		}
	}
	if !strings.Contains(out.String(), "\n- 10000 agents are ") {
		t.Error("nothing is said of 10,000 agents")
	}
	for _, args := range [][]string{{"many"}, {"3", "none"}} {
		if err := run(args, &out); err == nil {
			t.Errorf("%v passed", args)
		}
	}
}
