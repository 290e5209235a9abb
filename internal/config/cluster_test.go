package config_test

import (
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestAdvertise: other nodes reach a node where it listens, and by its name where it listens everywhere.
func TestAdvertise(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8090": "127.0.0.1:8090", "[::1]:8090": "[::1]:8090", "10.0.0.7:1": "10.0.0.7:1",
		"0.0.0.0:8090": "a.example:8090", "[::]:8090": "a.example:8090", ":8090": "a.example:8090",
	} {
		text := fmt.Sprintf("store: nats://127.0.0.1\ncluster: {node: a.example, key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=, listen: %q}", listen)
		c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Cluster.Advertise != want {
			t.Errorf("%s: %s, want %s", listen, c.Cluster.Advertise, want)
		}
	}
}
