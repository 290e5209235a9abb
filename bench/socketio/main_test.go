//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPeer has the raw client join our server, and get an ack and a broadcast.
func TestPeer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	peers, err := connectAll(ctx, strings.TrimPrefix(strings.TrimSpace(line), "http://"), "", 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ send, want string }{
		{`427["echo",` + text + `]`, `437[` + text + `]`},
		{`421["join",1]`, `431[true]`},
		{`42["broadcast",` + strings.Repeat("1", 200) + `]`, `42["news",` + strings.Repeat("1", 200) + `]`},
	} {
		if _, err := peers[0].conn.Write(masked(step.send)); err != nil {
			t.Fatal(err)
		}
		if got, err := peers[0].read(); err != nil || string(got) != step.want {
			t.Errorf("got %s, %v, want %s", got, err, step.want)
		}
	}
	var deliveries atomic.Int64
	var sent bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		peers[0].listen(&deliveries, 1, &sent, []byte("next"))
	}()
	if _, err := peers[1].conn.Write(masked(`42["broadcast",1]`)); err != nil {
		t.Fatal(err)
	}
	for deliveries.Load() == 0 {
		if err := wait(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	closeAll(peers)
	<-done
	if sent.String() != "next" {
		t.Errorf("sent %q", &sent)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestReport(t *testing.T) {
	rate, memory := part{name: "echo", unit: "messages/s", target: 1.5}, part{name: "memory", unit: "bytes", target: maxIdle}
	for name, test := range map[string]struct {
		ours  [2]float64
		wrong string
	}{
		"met":            {[2]float64{200, maxIdle}, ""},
		"rate missed":    {[2]float64{149, 7000}, "echo"},
		"memory missed":  {[2]float64{200, maxIdle + 1}, "memory"},
		"nothing is met": {[2]float64{1, 99999}, "echo"},
	} {
		var out bytes.Buffer
		err := report(&out, []result{{rate, reference, 100}, {rate, ours, test.ours[0]}, {memory, reference, 100}, {memory, ours, test.ours[1]}})
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(out.String(), "x_baseline") {
			t.Errorf("%s: %s", name, &out)
		}
	}
	if err := run(t.Context(), []string{"-what"}, io.Discard, io.Discard); err == nil {
		t.Error("an unknown flag")
	}
}
