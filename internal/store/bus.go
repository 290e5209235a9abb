package store

import (
	"fmt"
	"time"
)

// MaxMessage bounds the body of a message.
const MaxMessage = 512 << 10

// maxHeader bounds the names and values of a message's Header in all.
const maxHeader = 16 << 10

// Header is what a message says of its body: names and their values, each name once. Both are printable ASCII. A header
// has few names, and each message makes one at either end, so it is no map.
type Header [][2]string

// Get returns the value of a name, "" if the name is not there.
func (h Header) Get(name string) string {
	value, _ := h.Lookup(name)
	return value
}

// Lookup is Get that reports whether the name is there.
func (h Header) Lookup(name string) (value string, ok bool) {
	for i := range h {
		if h[i][0] == name {
			return h[i][1], true
		}
	}
	return "", false
}

// Set gives a name its value.
func (h *Header) Set(name, value string) {
	for i := range *h {
		if (*h)[i][0] == name {
			(*h)[i][1] = value
			return
		}
	}
	*h = append(*h, [2]string{name, value})
}

// Message is a message as a listener gets it. Header and body belong to the listener.
type Message struct {
	Subject string
	Header  Header
	Body    []byte
	// Reply answers a question; the first answer counts. It may be called later, from any goroutine.
	// It is nil if the sender awaits no answer.
	Reply func(h Header, body []byte) error
}

// Bus carries messages between processes, each at most once: what a listener misses is lost. All
// methods may be called concurrently. Header and body belong to the caller again when a method
// returns.
type Bus interface {
	// Tell sends a message to the listeners of a subject. ErrUnavailable says that the connection is
	// down; without an error the message may still be lost.
	Tell(subject string, h Header, body []byte) error
	// Ask sends a message and calls f once, from another goroutine: with the first answer, with
	// ErrNobody at once if the subject has no listener, or with ErrUnavailable when the connection is
	// down or no answer came in time. f must return at once.
	Ask(subject string, h Header, body []byte, timeout time.Duration, f func(Message, error))
	// Listen calls f with the messages of a subject, in the order of their sender. Calls of f do not
	// overlap. f must return at once, because messages of other subjects may wait for it. f may be
	// running when stop returns, and is not called afterwards.
	Listen(subject string, f func(Message)) (stop func(), err error)
}

// CheckMessage returns an error for a message that no implementation carries.
func CheckMessage(subject string, h Header, body []byte) error {
	if err := CheckKey(subject, false); err != nil {
		return err
	}
	if len(body) > MaxMessage {
		return fmt.Errorf("store: a message to %.60q has %d bytes, more than %d", subject, len(body), MaxMessage)
	}
	size := 0
	for _, field := range h {
		name, value := field[0], field[1]
		size += len(name) + len(value)
		if name == "" || !printable(name) || !printable(value) {
			return fmt.Errorf("store: the header %.60q of a message to %.60q has characters that are not printable ASCII", name, subject)
		}
	}
	if size > maxHeader {
		return fmt.Errorf("store: the header of a message to %.60q has %d bytes, more than %d", subject, size, maxHeader)
	}
	return nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
