package service

import (
	"net"
	"strings"
)

// States that a Notifier sends.
const (
	Ready  = "READY=1"
	Ending = "STOPPING=1"
)

// Notifier sends the state of the gateway to the manager of services, in the protocol of systemd's
// sd_notify. The zero value does nothing.
type Notifier struct{ socket string }

// NewNotifier returns a Notifier for the value of the variable NOTIFY_SOCKET; "" makes one that does
// nothing.
func NewNotifier(socket string) Notifier { return Notifier{socket} }

// Notify sends one state. An abstract socket starts with "@".
func (n Notifier) Notify(state string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(strings.TrimSpace(state)))
	return err
}
