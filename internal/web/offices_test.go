package web

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
)

// desks are the routes of three Computers: desk with two servers, lab with one, and new with none.
type desks struct{}

func (desks) Names() []string {
	return []string{"desk", "desk.excel", "desk.word", "lab", "lab.robot", "new"}
}

func (desks) Resolve(name string) (target string, whole, ok bool) {
	return "up-" + name, !slices.Contains([]string{"desk.excel", "desk.word", "lab.robot"}, name), true
}

// TestComputersSeen: a viewer sees the servers of which something exists for the viewer, and no
// Computer whose servers are all hidden.
func TestComputersSeen(t *testing.T) {
	known := map[string]gateway.UpstreamHealth{"up-desk.excel": {}, "up-desk.word": {}, "up-lab.robot": {}}
	seen := map[string]gateway.UpstreamHealth{"up-desk.word": {}}
	if got := fmt.Sprint(computers(desks{}, known, known)); got != "[{desk [{excel up-desk.excel  0} {word up-desk.word  0}]} {lab [{robot up-lab.robot  0}]} {new []}]" {
		t.Errorf("all: %s", got)
	}
	if got := fmt.Sprint(computers(desks{}, known, seen)); got != "[{desk [{word up-desk.word  0}]} {new []}]" {
		t.Errorf("some: %s", got)
	}
}
