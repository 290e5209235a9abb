package socketio_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/weir-mcp/weir/socketio"
)

func Example() {
	server := socketio.NewServer(socketio.Config{})
	chat := server.Of("/chat")
	chat.On("join", func(e *socketio.Event) {
		var room string
		if err := e.Decode(0, &room); err != nil {
			return
		}
		e.Socket().Join(room)
		_ = e.Ack(json.RawMessage(`true`)) // Who has left waits for nothing.
	})
	chat.On("say", func(e *socketio.Event) {
		_ = chat.To("lobby").Emit("said", e.Args...) // Encoded once, whoever is in the room.
	})
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Shutdown(context.Background())

	ctx := context.Background()
	client := socketio.NewClient(web.URL+"/socket.io/", socketio.ClientConfig{Namespace: "/chat"})
	defer client.Close()
	heard := make(chan json.RawMessage)
	client.On("said", func(e *socketio.Event) { heard <- e.Arg(0) })
	if err := client.Connect(ctx); err != nil {
		fmt.Println(err)
		return
	}
	reply, err := client.EmitWithAck(ctx, "join", json.RawMessage(`"lobby"`))
	fmt.Println("joined:", string(reply.Arg(0)), err)
	if err := client.Emit("say", json.RawMessage(`"hello"`)); err != nil {
		fmt.Println(err)
	}
	fmt.Println("heard:", string(<-heard))
	// Output:
	// joined: true <nil>
	// heard: "hello"
}

func ExampleNamespace_Use() {
	server := socketio.NewServer(socketio.Config{})
	server.Of("/").Use(func(_ context.Context, s *socketio.Socket) error {
		var auth struct{ Token string }
		if err := json.Unmarshal(s.Auth(), &auth); err != nil || auth.Token != "secret" {
			return &socketio.ConnectError{Message: "wrong token"}
		}
		s.SetValue("ann")
		return nil
	})
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Shutdown(context.Background())

	client := socketio.NewClient(web.URL+"/socket.io/", socketio.ClientConfig{})
	fmt.Println(client.Connect(context.Background()))
	// Output: socketio: connection refused: wrong token
}

func ExamplePlaceholder() {
	p := socketio.Payload{
		Args:        []json.RawMessage{socketio.Placeholder(0)},
		Attachments: [][]byte{{1, 2, 3}},
	}
	fmt.Println(string(p.Args[0]))
	fmt.Println(p.Attachment(p.Args[0]))
	// Output:
	// {"_placeholder":true,"num":0}
	// [1 2 3] true
}
