package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// TestConversation runs both commands against each other over every transport.
func TestConversation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"serve", "-addr", "127.0.0.1:0"}, in, io.Discard) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
	for _, transport := range []string{"polling", "websocket", "both"} {
		t.Run(transport, func(t *testing.T) {
			var said bytes.Buffer
			if err := run(t.Context(), []string{"dial", "-transport", transport, url}, &said, io.Discard); err != nil {
				t.Errorf("%v\n%s", err, &said)
			}
			if steps := strings.Count(said.String(), "ok  "); steps != 11 {
				t.Errorf("%d steps:\n%s", steps, &said)
			}
		})
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"sing"}, {"dial"}, {"dial", "-x"}, {"serve", "-addr", "nowhere"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
