package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestQuickstartIDs keeps the tool ids written in the quickstart's README true: each names
// a tool there is and ends in the hash of its arguments (gateway-surface §1.3).
func TestQuickstartIDs(t *testing.T) {
	want := map[string]bool{}
	for _, name := range Names() {
		var session *mcp.ClientSession
		if name == "inventory" {
			session, _ = overHTTP(t, name)
		} else {
			session = overStdio(t, name)
		}
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			want[name+":"+tool.Name+"#"+argumentsHash(t, tool)] = true
		}
	}
	readme, err := os.ReadFile("../examples/quickstart/README.md")
	if err != nil {
		t.Fatal(err)
	}
	written := regexp.MustCompile(`'([a-z]+:[a-z_]+#[0-9a-f]*)'`).FindAllSubmatch(readme, -1)
	if len(written) < 4 {
		t.Errorf("%d tool ids in the README, want at least 4", len(written))
	}
	for _, id := range written {
		if !want[string(id[1])] {
			t.Errorf("the README calls %s, which does not exist; there are %v", id[1], want)
		}
	}
}

func argumentsHash(t *testing.T, tool *mcp.Tool) string {
	t.Helper()
	schema := tool.InputSchema.(map[string]any)
	// The tags' order is the shape's order of keys.
	shape := struct {
		Properties []string `json:"properties"`
		Required   []string `json:"required"`
	}{[]string{}, []string{}}
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		shape.Properties = append(shape.Properties, name)
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		shape.Required = append(shape.Required, name.(string))
	}
	slices.Sort(shape.Properties)
	slices.Sort(shape.Required)
	text, err := json.Marshal(shape)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(tool.Name + "\n" + string(text)))
	return hex.EncodeToString(sum[:4])
}
