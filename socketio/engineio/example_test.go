package engineio_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// upper answers each message of a session in capitals.
type upper struct{ session *engineio.Session }

func (u upper) Message(data []byte, binary bool) {
	answer := make([]byte, len(data))
	for i, c := range data {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		answer[i] = c
	}
	_ = u.session.Send(engineio.Text(answer)) // A session that has ended needs no answer.
}

func (upper) Pause() {}

func (upper) Closed(engineio.Reason, error) {}

// printer prints what comes, and then tells that it has.
type printer struct{ done chan struct{} }

func (p printer) Message(data []byte, binary bool) {
	fmt.Printf("%s\n", data)
	close(p.done)
}

func (printer) Pause() {}

func (printer) Closed(engineio.Reason, error) {}

func Example() {
	server := engineio.NewServer(engineio.Config{
		Accept: func(s *engineio.Session) engineio.Receiver { return upper{s} },
	})
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Shutdown(context.Background())

	p := printer{make(chan struct{})}
	session, err := engineio.Dial(context.Background(), web.URL+"/engine.io/", engineio.ClientConfig{},
		func(*engineio.Session) engineio.Receiver { return p })
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := session.Send(engineio.Text([]byte("hello"))); err != nil {
		fmt.Println(err)
	}
	<-p.done
	session.Close()
	session.Wait()
	// Output: HELLO
}
