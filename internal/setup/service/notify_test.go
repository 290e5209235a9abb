//go:build unix

package service

import (
	"net"
	"path/filepath"
	"testing"
)

// TestNotify listens as systemd does.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	n := NewNotifier(path)
	for _, state := range []string{Ready, Ending} {
		if err := n.Notify(state); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		size, err := listener.Read(buf)
		if err != nil || string(buf[:size]) != state {
			t.Errorf("%q, %v", buf[:size], err)
		}
	}
	if err := NewNotifier("").Notify(Ready); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	listener.Close()
	if err := n.Notify(Ready); err == nil {
		t.Error("a manager that is gone is no error")
	}
}
