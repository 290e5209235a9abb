package machine

import (
	"testing"

	"github.com/weir-mcp/weir/internal/setup/clients"
)

// TestLasting tells programs that stay from those that go run makes for one run.
func TestLasting(t *testing.T) {
	t.Parallel()
	for path, stays := range map[string]bool{
		"/usr/bin/weir":                                true,
		"/home/ann/go/bin/weir":                        true,
		"/home/ann/go-build/weir":                      true,
		"/tmp/go-build1201687635/b001/exe/weir":        false,
		`C:\Temp\go-build120\b001\exe\weir.exe`:        false,
		"/home/ann/.cache/go-build/0a/" + sum + "-d/w": false,
	} {
		if err := Lasting(clients.How{Command: []string{path}}); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
		if err := Lasting(clients.How{Command: []string{path}, URL: "http://127.0.0.1:8088/mcp"}); err != nil {
			t.Errorf("%s, by the URL: %v", path, err)
		}
	}
}

const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
