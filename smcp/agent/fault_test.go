package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/mcp"
)

// Errors that are none of the protocol's.
func TestOtherReasons(t *testing.T) {
	if err := CallError("desk", member.ErrNotConnected); !strings.Contains(err.Error(), "not connected to its hub") {
		t.Error(err)
	}
	err := CallError("desk", fmt.Errorf("late%w", hidden{context.DeadlineExceeded}))
	if kind, _ := mcp.KindOf(err); kind != mcp.KindUpstreamTimeout || strings.Contains(err.Error(), "context") {
		t.Error(err)
	}
	if unknown := errors.New("x"); CallError("desk", unknown) != unknown {
		t.Error("an error of no kind is another now")
	}
}
