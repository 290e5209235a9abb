package natsstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-mcp/weir/internal/store"
)

// TestAwayTexts: clients are told of the store and of its operator, and not of the client library's buffers.
func TestAwayTexts(t *testing.T) {
	for _, cause := range []error{nats.ErrReconnectBufExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, context.DeadlineExceeded} {
		err := failure(cause)
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, cause) {
			t.Errorf("%v is not what it was: %v", cause, err)
		}
		if text := err.Error(); strings.Contains(text, "nats:") || strings.Contains(text, "buffer") || !strings.Contains(text, "operators") {
			t.Errorf("the text of %v: %s", cause, text)
		}
	}
}

// TestAwayNamesAFullDisk: a server whose disk is full does not say so, so the errors that it causes do, with the restart
// that it needs.
func TestAwayNamesAFullDisk(t *testing.T) {
	for _, cause := range []error{nats.ErrTimeout, context.DeadlineExceeded, nats.ErrNoResponders, jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled} {
		if text := failure(cause).Error(); !strings.Contains(text, "disks have room") || !strings.Contains(text, "after a restart") {
			t.Errorf("the text of %v: %s", cause, text)
		}
	}
}
