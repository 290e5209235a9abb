package socketio

import (
	"errors"
	"testing"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// closedLink is a connection that has ended, of which its sockets have not heard yet.
type closedLink struct{ link }

func (closedLink) send(message, bool) error { return engineio.ErrClosed }
func (closedLink) Flush()                   {}

// TestEmitAfterTheConnection: the error is that of a disconnected socket from the moment on at which nothing can be sent.
func TestEmitAfterTheConnection(t *testing.T) {
	for name, gathering := range map[string]bool{"at once": false, "with others": true} {
		s := &Socket{conn: &conn{link: closedLink{}}, nsp: "/", status: connected}
		s.jobs.gathering.Store(gathering)
		if err := s.Emit("event"); !errors.Is(err, ErrDisconnected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
