package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// TestSuite looks at what suites rely on; interop/socketio-protocol.mjs does the rest.
func TestSuite(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-addr", "127.0.0.1:0"}, in, io.Discard) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimPrefix(strings.TrimSpace(line), "listening on ")

	for _, path := range []string{"/socket.io/", "/engine.io/"} {
		response, err := http.Get(url + path + "?EIO=4&transport=polling")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if want := `"upgrades":["websocket"],"pingInterval":300,"pingTimeout":200,"maxPayload":1000000}`; err != nil || !strings.HasSuffix(string(body), want) {
			t.Errorf("%s: %s, %v", path, body, err)
		}
	}

	echoed := make(chan string, 1)
	session, err := engineio.Dial(ctx, url+"/engine.io/", engineio.ClientConfig{}, func(*engineio.Session) engineio.Receiver { return keeper(echoed) })
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Send(engineio.Text([]byte("hello"))); err != nil || <-echoed != "hello" {
		t.Errorf("echo: %v", err)
	}
	session.Close()
	session.Wait()

	for _, namespace := range []string{"/", "/custom"} {
		auth := make(chan string, 1)
		client := socketio.NewClient(url+"/socket.io/", socketio.ClientConfig{
			Namespace: namespace,
			Auth:      func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"token":"123"}`), nil },
		})
		client.On("auth", func(e *socketio.Event) { auth <- string(e.Arg(0)) })
		if err := client.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		if got := <-auth; got != `{"token":"123"}` {
			t.Errorf("%s: auth %s", namespace, got)
		}
		if namespace == "/" {
			reply, err := client.EmitWithAck(ctx, "message-with-ack", json.RawMessage("1"), json.RawMessage(`"2"`))
			if err != nil || len(reply.Args) != 2 || string(reply.Arg(1)) != `"2"` {
				t.Errorf("ack %s, %v", reply.Args, err)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

type keeper chan string

func (k keeper) Message(data []byte, _ bool) { k <- string(data) }
func (keeper) Pause()                        {}
func (keeper) Closed(engineio.Reason, error) {}
