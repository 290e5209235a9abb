package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// patience bounds each step of the conversation.
const patience = 5 * time.Second

// A guest is a client and what has come to it.
type guest struct {
	*socketio.Client
	hello chan json.RawMessage
	said  chan json.RawMessage
	ticks chan json.RawMessage
	left  chan socketio.Reason
	joins chan struct{} // one for each time it was connected
}

func newGuest(url, transport, token string) *guest {
	g := &guest{
		hello: make(chan json.RawMessage, 10), said: make(chan json.RawMessage, 10), ticks: make(chan json.RawMessage, 1000),
		left: make(chan socketio.Reason, 10), joins: make(chan struct{}, 10),
	}
	g.Client = socketio.NewClient(url, socketio.ClientConfig{
		Auth:         func(context.Context) (json.RawMessage, error) { return json.Marshal(map[string]string{"token": token}) },
		Engine:       engineio.ClientConfig{Transports: transports(transport)},
		Backoff:      socketio.Backoff{Min: 50 * time.Millisecond},
		OnConnect:    func(*socketio.Socket) { g.joins <- struct{}{} },
		OnDisconnect: func(reason socketio.Reason, _ error) { g.left <- reason },
	})
	keep := func(to chan json.RawMessage) socketio.Handler {
		return func(e *socketio.Event) { to <- e.Arg(0) }
	}
	g.On("hello", keep(g.hello))
	g.On("said", keep(g.said))
	g.On("tick", keep(g.ticks))
	g.On("question", func(e *socketio.Event) { _ = e.Ack(json.RawMessage(`"answer"`), e.Arg(0)) })
	return g
}

func transports(name string) []engineio.Transport {
	if name == "both" {
		return nil
	}
	return []engineio.Transport{engineio.Transport(name)}
}

// next waits for something.
func next[T any](ctx context.Context, from <-chan T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case value := <-from:
		return value, nil
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("nothing came: %w", ctx.Err())
	}
}

func (g *guest) ask(ctx context.Context, event string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw := make([]json.RawMessage, len(args))
	for i, arg := range args {
		raw[i] = json.RawMessage(arg)
	}
	reply, err := g.EmitWithAck(ctx, event, raw...)
	return string(bytes.Join(rawBytes(reply.Args), []byte(","))), err
}

func rawBytes(args []json.RawMessage) [][]byte {
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	return list
}

// want compares JSON values, or lists of them, without regard to how they are written.
func want(got, want string, err error) error {
	if err != nil {
		return err
	}
	var values [2]any
	for i, text := range []string{got, want} {
		if err := json.Unmarshal([]byte("["+text+"]"), &values[i]); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	if !reflect.DeepEqual(values[0], values[1]) {
		return fmt.Errorf("got %s, want %s", got, want)
	}
	return nil
}

// dial uses every event of the server and prints a line each.
func dial(ctx context.Context, url, transport string, stdout io.Writer) error {
	url = strings.TrimSuffix(url, "/") + "/socket.io/"
	failed := 0
	step := func(name string, do func() error) {
		if err := do(); err != nil {
			failed++
			fmt.Fprintf(stdout, "FAILED  %s: %v\n", name, err)
			return
		}
		fmt.Fprintf(stdout, "ok      %s\n", name)
	}
	step("connect: refused without the token", func() error { return refused(ctx, url, transport) })
	one, two := newGuest(url, transport, "secret"), newGuest(url, transport, "secret")
	defer one.Close()
	defer two.Close()
	step("connect", func() error { return errors.Join(one.Connect(ctx), two.Connect(ctx)) })
	if failed > 0 {
		return errors.New("no conversation")
	}
	step("event from the server", func() error {
		hello, err := next(ctx, one.hello)
		return want(string(hello), `{"sid":"`+one.Socket().ID()+`"}`, err)
	})
	step("ack from the server", func() error {
		got, err := one.ask(ctx, "echo", `1`, `"two €"`, `{"3":[true,null]}`)
		return want(got, `1,"two €",{"3":[true,null]}`, err)
	})
	step("ack to the server", func() error {
		got, err := one.ask(ctx, "ask-me", `"why"`)
		return want(got, `"answer","why"`, err)
	})
	step("binary", func() error { return binary(ctx, one) })
	step("room without the sender", func() error { return rooms(ctx, one, two) })
	step("burst of 40", func() error { return burst(ctx, one, 40) })
	step("disconnected by the server, and back", func() error { return comeBack(ctx, one, "kick") })
	step("cut by the server, and back", func() error { return comeBack(ctx, one, "cut") })
	step("close", func() error { return errors.Join(one.Close(), two.Close()) })
	if failed > 0 {
		return fmt.Errorf("%d steps failed", failed)
	}
	return nil
}

func refused(ctx context.Context, url, transport string) error {
	g := newGuest(url, transport, "wrong")
	err := g.Connect(ctx)
	if err == nil {
		return errors.Join(errors.New("it was let in"), g.Close())
	}
	refusal, ok := errors.AsType[*socketio.ConnectError](err)
	if !ok || !strings.Contains(refusal.Message, "bad token") {
		return fmt.Errorf("unexpected error: %w", err)
	}
	return nil
}

func binary(ctx context.Context, g *guest) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	data := [][]byte{{0, 1, 2, 255}, bytes.Repeat([]byte{7}, 5000)}
	reply, err := g.EmitPayloadWithAck(ctx, "echo", socketio.Payload{
		Args:        []json.RawMessage{json.RawMessage(`{"file":` + string(socketio.Placeholder(0)) + `}`), socketio.Placeholder(1)},
		Attachments: data,
	})
	if err != nil {
		return err
	}
	var first struct {
		File json.RawMessage `json:"file"`
	}
	if err := json.Unmarshal(reply.Arg(0), &first); err != nil {
		return err
	}
	for i, value := range []json.RawMessage{first.File, reply.Arg(1)} {
		if got, ok := reply.Attachment(value); !ok || !bytes.Equal(got, data[i]) {
			return fmt.Errorf("attachment %d came back as %v, %v", i, got, ok)
		}
	}
	return nil
}

func rooms(ctx context.Context, one, two *guest) error {
	for _, g := range []*guest{one, two} {
		if got, err := g.ask(ctx, "join", `"den"`); err != nil || got != "true" {
			return fmt.Errorf("join: %s, %w", got, err)
		}
	}
	if _, err := one.ask(ctx, "say", `"den"`, `"to the others"`); err != nil {
		return err
	}
	if _, err := one.ask(ctx, "shout", `"den"`, `"to all"`); err != nil {
		return err
	}
	first, err := next(ctx, one.said)
	if err := want(string(first), `"to all"`, err); err != nil {
		return fmt.Errorf("the sender: %w", err)
	}
	for _, text := range []string{`"to the others"`, `"to all"`} {
		got, err := next(ctx, two.said)
		if err := want(string(got), text, err); err != nil {
			return fmt.Errorf("the other: %w", err)
		}
	}
	return nil
}

func burst(ctx context.Context, g *guest, n int) error {
	if err := g.Emit("burst", json.RawMessage(fmt.Sprint(n))); err != nil {
		return err
	}
	for i := range n {
		tick, err := next(ctx, g.ticks)
		if err := want(string(tick), fmt.Sprint(i), err); err != nil {
			return err
		}
	}
	return nil
}

func comeBack(ctx context.Context, g *guest, event string) error {
	for len(g.joins) > 0 {
		<-g.joins
	}
	if err := g.Emit(event); err != nil {
		return err
	}
	if _, err := next(ctx, g.left); err != nil {
		return fmt.Errorf("still there: %w", err)
	}
	if _, err := next(ctx, g.joins); err != nil {
		return fmt.Errorf("not back: %w", err)
	}
	got, err := g.ask(ctx, "echo", `"again"`)
	return want(got, `"again"`, err)
}
