package part

import (
	"encoding/json"
	"time"
)

// Identity returns the implementation info that weir sends in MCP handshakes.
func Identity(version string) json.RawMessage {
	info, err := json.Marshal(map[string]string{"name": ServerName, "title": "weir", "version": version})
	if err != nil {
		panic(err) // cannot happen: three strings
	}
	return info
}

// CloseTimeout is how long Close waits for upstreams to end.
const CloseTimeout = 4 * time.Second

// ServerName is the server name that weir reports in MCP and in /healthz.
const ServerName = "weir"
