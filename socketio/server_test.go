package socketio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// TestTranscripts holds the server against packets, frame by frame.
func TestTranscripts(t *testing.T) {
	refuse := func(err error) func(context.Context, *Socket) error {
		return func(context.Context, *Socket) error { return err }
	}
	s := setup(t, Config{}, func(server *Server) {
		root := server.Of("/")
		root.On("echo", func(e *Event) { _ = e.Socket().EmitPayload("back", e.Payload) })
		root.On("ack", func(e *Event) { _ = e.AckPayload(e.Payload) })
		root.On("nothing", func(e *Event) { _ = e.Ack() })
		root.On("bye", func(e *Event) { e.Socket().Disconnect() })
		root.OnOther(func(e *Event) { _ = e.Ack(json.RawMessage(`"other"`)) })
		server.Of("/typed").Use(refuse(&ConnectError{Message: "no", Data: json.RawMessage(`{"code":401}`)}))
		server.Of("/plain").Use(refuse(errors.New("the database password is wrong")))
		server.Of("/x").On("echo", func(e *Event) { _ = e.Socket().EmitPayload("back", e.Payload) })
	})
	tests := []struct {
		name string
		send []any
		want []string
	}{
		{"event", []any{`42["echo",1,{"a" : 2}]`}, []string{`42["back",1,{"a" : 2}]`}},
		{"binary event", []any{`451-["echo",{"_placeholder":true,"num":0}]`, []byte{9}}, []string{`451-["back",{"_placeholder":true,"num":0}]`, "\x09"}},
		{"binary event without attachments", []any{`450-["echo",1]`}, []string{`42["back",1]`}},
		{"ack", []any{`427["ack",1]`}, []string{`437[1]`}},
		{"ack id of twenty digits", []any{`4218446744073709551616["ack",1]`}, []string{`4318446744073709551616[1]`}},
		{"repeated ack id", []any{`427["ack",1]`, `427["ack",2]`}, []string{`437[1]`, `437[2]`}},
		{"binary ack", []any{`451-7["ack",{"_placeholder":true,"num":0}]`, []byte{9}}, []string{`461-7[{"_placeholder":true,"num":0}]`, "\x09"}},
		{"empty ack", []any{`427["nothing"]`}, []string{`437[]`}},
		{"unknown event", []any{`427["what"]`}, []string{`437["other"]`}},
		{"event named by a number", []any{`427[5]`}, []string{`437["other"]`}},
		{"name with an escape", []any{`427["\u0061ck",1]`}, []string{`437[1]`}},
		{"ack that nobody waits for", []any{`4399[1]`, `43[1]`[:0] + `42["echo",1]`}, []string{`42["back",1]`}},
		{"namespace", []any{`40/x,`, `42/x,["echo",1]`}, []string{"40/x,", `42/x,["back",1]`}},
		{"unknown namespace", []any{`40/nowhere`}, []string{`44/nowhere,{"message":"Invalid namespace"}`}},
		{"refused with data", []any{`40/typed,`}, []string{`44/typed,{"message":"no","data":{"code":401}}`}},
		{"refused without saying why", []any{`40/plain,`}, []string{`44/plain,{"message":"Connection refused by server"}`}},
		{"disconnected by the server", []any{`42["bye"]`}, []string{`41`}},
		{"packets for a namespace that was left", []any{`41`, `42["echo",1]`, `40`}, []string{"40"}},
		{"left and joined again", []any{`41`, `40`, `42["echo",1]`}, []string{"40", `42["back",1]`}},
		{"DISCONNECT with a payload", []any{`41{"a":1}`, `40`}, []string{"40"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := s.wire()
			w.t = t
			w.send("40")
			if got := w.read(); !strings.HasPrefix(got, `40{"sid":"`) {
				t.Fatalf("CONNECT: %q", got)
			}
			for i, frame := range test.send {
				w.send(frame)
				if frame == "41" || frame == `41{"a":1}` {
					waitFor(t, func() bool { return s.server.Of("/").Len() == i }) // The rest must come after it.
				}
			}
			for _, want := range test.want {
				got := w.read()
				if strings.HasPrefix(want, "40") {
					got = got[:len(want)]
				}
				if got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			w.Close()
			waitFor(t, func() bool { return s.server.Connections() == 0 })
		})
	}
}

func TestBrokenPackets(t *testing.T) {
	s := setup(t, Config{MaxAttachments: 2}, func(server *Server) { server.Of("/").On("echo", func(*Event) {}) })
	for name, frames := range map[string][]any{
		"unknown type":                      {"47"},
		"no array":                          {"42{}"},
		"no JSON":                           {`42["echo",]`},
		"reserved name":                     {`42["connect"]`},
		"reserved name, escaped":            {`42["\u0063onnect"]`},
		"text for an attachment":            {`451-["echo",{"_placeholder":true,"num":0}]`, `42["echo"]`},
		"an attachment of nothing":          {[]byte{1}},
		"too many attachments":              {`453-["echo"]`},
		"a namespace that was never joined": {`42/never,["echo"]`},
		"a CONNECT_ERROR":                   {`44{"message":"no"}`},
		"ack that is no array":              {`431{}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := s.wire()
			w.t = t
			w.send("40")
			_ = w.read()
			w.send(frames...)
			w.isClosed()
		})
	}
}

func TestSocketIDIsNotTheSessionID(t *testing.T) {
	ids := make(chan [2]string, 1)
	s := setup(t, Config{Engine: engineio.Config{}}, func(server *Server) {
		server.Of("/").OnConnect(func(s *Socket) { ids <- [2]string{s.ID(), s.conn.link.(engineLink).Session.ID()} })
	})
	c := s.connect(ClientConfig{Engine: websocketOnly})
	got := next(t, ids)
	if got[0] == got[1] || got[0] != c.Socket().ID() {
		t.Errorf("socket %q, session %q, client %q", got[0], got[1], c.Socket().ID())
	}
}

// TestHandlerMayWaitForItsPeer asks back during an event, in a handler that holds up the next ones.
func TestHandlerMayWaitForItsPeer(t *testing.T) {
	s := setup(t, Config{}, func(server *Server) {
		server.Of("/").On("ask", func(e *Event) {
			reply, err := e.Socket().EmitWithAck(t.Context(), "question", e.Args...)
			if err != nil {
				t.Error(err)
			}
			_ = e.AckPayload(reply)
		})
	})
	for name, engine := range ways {
		t.Run(name, func(t *testing.T) {
			c := s.client(ClientConfig{Engine: engine})
			c.On("question", func(e *Event) { _ = e.Ack(append(raw(`"answer"`), e.Args...)...) })
			if err := c.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					reply, err := c.EmitWithAck(t.Context(), "ask", json.RawMessage(fmt.Sprint(i)))
					if want := fmt.Sprintf(`"answer",%d`, i); err != nil || joined(reply) != want {
						t.Errorf("%s, %v, want %s", joined(reply), err, want)
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestAckErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sockets := make(chan *Socket, 1)
		s := setupInMemory(t, Config{MaxAcks: 2}, func(server *Server) {
			server.Of("/").OnConnect(func(s *Socket) { sockets <- s })
		})
		c := s.client(ClientConfig{Engine: websocketOnly, Retry: func(int, error) (time.Duration, bool) { return 0, false }})
		late := make(chan *Event, 1)
		c.On("late", func(e *Event) { late <- e })
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		socket := <-sockets
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := socket.EmitWithAck(ctx, "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no ack in time: %v", err)
		}
		e := <-late
		if err := errors.Join(e.Ack(), e.Ack()); !errors.Is(err, ErrNoAckWanted) {
			t.Errorf("a second ack: %v", err)
		}
		told := make(chan error, 4)
		if err := socket.EmitFunc(time.Minute, "late", Payload{}, func(_ Payload, err error) { told <- err }); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := <-told; !errors.Is(err, ErrAckTimeout) || time.Since(began) != time.Minute {
			t.Errorf("EmitFunc: %v after %v", err, time.Since(began))
		}
		<-late
		for range 2 {
			if err := socket.EmitFunc(0, "late", Payload{}, func(_ Payload, err error) { told <- err }); err != nil {
				t.Fatal(err)
			}
			<-late
		}
		if err := socket.EmitFunc(0, "late", Payload{}, nil); !errors.Is(err, ErrTooManyAcks) {
			t.Errorf("a third that waits: %v", err)
		}
		socket.Disconnect()
		for range 2 {
			if err := <-told; !errors.Is(err, ErrDisconnected) {
				t.Errorf("disconnected: %v", err)
			}
		}
		if _, err := socket.EmitWithAck(t.Context(), "late"); !errors.Is(err, ErrDisconnected) {
			t.Errorf("afterwards: %v", err)
		}
		if err := socket.Emit("late"); !errors.Is(err, ErrDisconnected) {
			t.Errorf("Emit afterwards: %v", err)
		}
		if err := socket.Emit("disconnect"); err == nil || errors.Is(err, ErrDisconnected) {
			t.Errorf("a reserved name: %v", err)
		}
		<-c.Done()
	})
}

// TestOrder has one handler at a time, in the order of the events, however long they take.
func TestOrder(t *testing.T) {
	const n = 500
	got := make(chan int, n)
	var running atomic.Int32
	s := setup(t, Config{MaxPending: 10}, func(server *Server) {
		server.Of("/").On("n", func(e *Event) {
			if running.Add(1) > 1 {
				t.Error("two handlers of one socket at the same time")
			}
			var i int
			if err := e.Decode(0, &i); err != nil {
				t.Error(err)
			}
			if i%50 == 0 {
				time.Sleep(time.Millisecond)
			}
			got <- i
			running.Add(-1)
		})
	})
	c := s.connect(ClientConfig{Engine: websocketOnly})
	for i := range n {
		if err := c.Emit("n", json.RawMessage(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if g := next(t, got); g != i {
			t.Fatalf("event %d is number %d", g, i)
		}
	}
}

// TestConcurrent runs as many handlers of a socket as it may, and not one more.
func TestConcurrent(t *testing.T) {
	const limit, n = 4, 20
	var running, most atomic.Int32
	release := make(chan struct{})
	s := setup(t, Config{MaxConcurrent: limit}, func(server *Server) {
		server.Of("/").OnConcurrent("slow", func(e *Event) {
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			<-release
			running.Add(-1)
			_ = e.Ack()
		})
	})
	c := s.connect(ClientConfig{Engine: websocketOnly})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := c.EmitWithAck(t.Context(), "slow"); err != nil {
				t.Error(err)
			}
		})
	}
	waitFor(t, func() bool { return running.Load() == limit })
	close(release)
	wg.Wait()
	if got := most.Load(); got != limit {
		t.Errorf("%d at the same time, want %d", got, limit)
	}
}

// TestAckDoesNotWaitForTheNextHandler sends a burst whose second handler blocks: the first one's ack must not wait for it.
func TestAckDoesNotWaitForTheNextHandler(t *testing.T) {
	release := make(chan struct{})
	s := setup(t, Config{}, func(server *Server) {
		server.Of("/").On("fast", func(e *Event) { _ = e.Ack() })
		server.Of("/").On("slow", func(*Event) { <-release })
	})
	defer close(release)
	w := s.wire()
	w.send("40")
	_ = w.read()
	// One write, so that they are handled as one batch.
	var frames []byte
	for _, text := range []string{`421["fast"]`, `42["slow"]`, `42["fast"]`} {
		frames = append(append(append(frames, 0x81, 0x80|byte(len(text))), 0, 0, 0, 0), text...)
	}
	if _, err := w.NetConn().Write(frames); err != nil {
		t.Fatal(err)
	}
	if got := w.read(); got != "431[]" {
		t.Errorf("got %q", got)
	}
}

// TestEventsBeforeALeave are handled although their sender has gone, and OnDisconnect comes after them.
func TestEventsBeforeALeave(t *testing.T) {
	log := make(chan string, 200)
	s := setup(t, Config{}, func(server *Server) {
		root := server.Of("/")
		root.On("n", func(e *Event) { time.Sleep(100 * time.Microsecond); log <- string(e.Arg(0)) })
		root.OnDisconnect(func(_ *Socket, reason Reason) { log <- string(reason) })
	})
	for name, test := range map[string]struct {
		leave func(*Client)
		want  Reason
	}{
		"disconnect": {func(c *Client) { _ = c.Close() }, ReasonClientDisconnect},
		"close":      {func(c *Client) { c.Socket().Close(); _ = c.Close() }, engineio.ReasonTransportClose},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.connect(ClientConfig{Engine: websocketOnly, Retry: func(int, error) (time.Duration, bool) { return 0, false }})
			for i := range 100 {
				if err := c.Emit("n", json.RawMessage(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
			test.leave(c)
			for i := range 100 {
				if got := next(t, log); got != fmt.Sprint(i) {
					t.Fatalf("event %d: %s", i, got)
				}
			}
			if got := next(t, log); got != string(test.want) {
				t.Errorf("reason %q, want %q", got, test.want)
			}
		})
	}
}

func TestRooms(t *testing.T) {
	s := setup(t, Config{}, func(server *Server) {
		root := server.Of("/")
		root.On("join", func(e *Event) {
			for _, arg := range e.Args {
				var room string
				if err := json.Unmarshal(arg, &room); err != nil {
					t.Error(err)
				}
				e.Socket().Join(room)
				e.Socket().Join(room)
			}
			_ = e.Ack()
		})
	})
	root := s.server.Of("/")
	const n = 40 // Enough for broadcasts to be fanned out.
	clients := make([]*Client, n)
	got := make([]chan string, n)
	for i := range n {
		got[i] = make(chan string, 100)
		clients[i] = s.client(ClientConfig{Engine: websocketOnly})
		clients[i].On("news", func(e *Event) { got[i] <- joined(e.Payload) })
		if err := clients[i].Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		rooms := []string{`"all"`, fmt.Sprintf(`"mod%d"`, i%4)}
		if _, err := clients[i].EmitWithAck(t.Context(), "join", raw(rooms...)...); err != nil {
			t.Fatal(err)
		}
	}
	socket := func(i int) *Socket { return root.Socket(clients[i].Socket().ID()) }
	news := raw(`"x"`)
	tests := []struct {
		name string
		emit func() error
		want func(i int) bool
	}{
		{"all", func() error { return root.Emit("news", news...) }, func(int) bool { return true }},
		{"a room of all", func() error { return root.To("all").Emit("news", news...) }, func(int) bool { return true }},
		{"a room", func() error { return root.To("mod1").Emit("news", news...) }, func(i int) bool { return i%4 == 1 }},
		{"two rooms, once each", func() error { return root.To("all", "mod1").Emit("news", news...) }, func(int) bool { return true }},
		{"not the sender", func() error { return socket(5).To("mod1").Emit("news", news...) }, func(i int) bool { return i%4 == 1 && i != 5 }},
		{"all but the sender", func() error { return socket(5).To().Emit("news", news...) }, func(i int) bool { return i != 5 }},
		{"except a room", func() error { return root.To("all").Except("mod2", "mod3").Emit("news", news...) }, func(i int) bool { return i%4 < 2 }},
		{"a room that there is not", func() error { return root.To("none").Emit("news", news...) }, func(int) bool { return false }},
		{"a room named like a socket", func() error { return root.To(socket(3).ID()).Emit("news", news...) }, func(int) bool { return false }},
		{"one room added to another", func() error { return root.To("mod1").To("mod2").Emit("news", news...) }, func(i int) bool { return i%4 == 1 || i%4 == 2 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := test.emit(); err != nil {
				t.Fatal(err)
			}
			if err := root.Emit("news", json.RawMessage(`"end"`)); err != nil { // What comes after it shows that nothing else came before.
				t.Fatal(err)
			}
			for i := range n {
				var list []string
				for m := ""; m != `"end"`; list = append(list, m) {
					m = next(t, got[i])
					if m == `"end"` {
						break
					}
				}
				if (len(list) == 1) != test.want(i) || len(list) > 1 {
					t.Errorf("client %d got %v", i, list)
				}
			}
		})
	}
	if got := root.Len(); got != n {
		t.Errorf("%d sockets", got)
	}
	if got := len(root.To("mod1", "mod2").Sockets()); got != n/2 {
		t.Errorf("%d in two rooms", got)
	}
	socket(1).Leave("mod1")
	if rooms := socket(1).Rooms(); len(rooms) != 1 || rooms[0] != "all" || len(root.RoomMembers("mod1")) != n/4-1 {
		t.Errorf("rooms after leaving: %v, members %d", rooms, len(root.RoomMembers("mod1")))
	}
	last := socket(2)
	for _, c := range clients {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	waitFor(t, func() bool { return root.Len() == 0 })
	last.Join("all")
	root.mu.Lock()
	defer root.mu.Unlock()
	if len(root.rooms) != 0 || len(root.members) != 0 {
		t.Errorf("rooms are left: %v", root.rooms)
	}
}

// TestBroadcastsInALoop are written as fast as the peers read, and make no slow consumer of any.
func TestBroadcastsInALoop(t *testing.T) {
	const peers, n = 40, 3000
	s := setup(t, Config{Engine: engineio.Config{MaxQueueFrames: 256}}, func(*Server) {})
	var counts [peers]atomic.Int32
	for i := range peers {
		c := s.client(ClientConfig{Engine: websocketOnly, MaxPending: n})
		c.On("news", func(e *Event) {
			if got := string(e.Arg(0)); got != fmt.Sprint(counts[i].Load()) {
				t.Errorf("peer %d got %s out of order", i, got)
			}
			counts[i].Add(1)
		})
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := s.server.Of("/").Emit("news", json.RawMessage(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range peers {
		waitFor(t, func() bool { return counts[i].Load() == n })
	}
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setupInMemory(t, Config{ConnectTimeout: time.Second}, func(*Server) {})
		ended := make(chan engineio.Reason, 1)
		began := time.Now()
		session, err := engineio.Dial(t.Context(), s.url, engineio.ClientConfig{
			Transports: websocketOnly.Transports, DialContext: s.listener.DialContext,
		}, func(*engineio.Session) engineio.Receiver { return silent{ended} })
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		if took := time.Since(began); took != time.Second {
			t.Errorf("closed after %v", took)
		}
		session.Wait()
		c := s.client(ClientConfig{Engine: websocketOnly})
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if c.Socket() == nil {
			t.Error("a client that has joined was closed")
		}
	})
}

type silent struct{ ended chan engineio.Reason }

func (silent) Message([]byte, bool)                     {}
func (silent) Pause()                                   {}
func (s silent) Closed(reason engineio.Reason, _ error) { s.ended <- reason }

// TestMalformed sends ten thousand packets of rubbish over connections that have joined.
func TestMalformed(t *testing.T) {
	s := setup(t, Config{}, func(server *Server) {
		server.Of("/").On("a", func(e *Event) { _ = e.AckPayload(e.Payload) })
		server.Of("/x")
	})
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"0", "1", "2", "3", "4", "5", "6", "51-", "/x", ",", "7", `["a"`, `["a",`, "]", "{", "}", `{"_placeholder":true,"num":0}`, "1", `"b"`, "\\u0000", "-", "😀", ""}
	for sent := 0; sent < 10_000; {
		w := s.wire()
		w.send("40")
		_ = w.read()
		for range 50 {
			sent++
			var text strings.Builder
			text.WriteString("4")
			for range random.IntN(6) {
				text.WriteString(pieces[random.IntN(len(pieces))])
			}
			kind, data := websocket.TextMessage, []byte(text.String())
			if random.IntN(10) == 0 {
				kind = websocket.BinaryMessage
			}
			if w.WriteMessage(kind, data) != nil {
				break
			}
		}
		w.Close()
	}
	waitFor(t, func() bool { return s.server.Connections() == 0 && s.server.Of("/").Len() == 0 })
}

// TestBinaryLimits bounds what attachments that are still to come may hold.
func TestBinaryLimits(t *testing.T) {
	s := setup(t, Config{}, func(server *Server) { server.Of("/").On("a", func(*Event) {}) })
	w := s.wire()
	w.send("40")
	_ = w.read()
	w.send(`464-`[:1] + `564-["a",1]`)
	for range 20 {
		if w.WriteMessage(websocket.BinaryMessage, bytes.Repeat([]byte{1}, 999_999)) != nil {
			break
		}
	}
	w.isClosed()
}

// An ack counts once, for the question whose id it bears, from the socket that
// was asked: a second one, and one of another socket, change nothing.
func TestAcksAreNotReplayed(t *testing.T) {
	s := setup(t, Config{}, func(server *Server) {
		server.Of("/").OnConcurrent("ask", func(e *Event) {
			answers := make([]json.RawMessage, 0, 2)
			for range 2 {
				p, err := e.Socket().EmitWithAck(t.Context(), "question", json.RawMessage(`1`))
				if err != nil || len(p.Args) != 1 {
					t.Errorf("%v, %v", p, err)
					return
				}
				answers = append(answers, p.Args[0])
			}
			_ = e.Socket().EmitPayload("answers", Payload{Args: answers})
		})
	})
	asked, other := s.wire(), s.wire()
	for _, w := range []wire{asked, other} {
		w.send("40")
		if got := w.read(); !strings.HasPrefix(got, `40{"sid":"`) {
			t.Fatalf("CONNECT: %q", got)
		}
	}
	question := func() (id string) {
		t.Helper()
		got := asked.read()
		id, rest, ok := strings.Cut(strings.TrimPrefix(got, "42"), "[")
		if !ok || !strings.HasPrefix(rest, `"question"`) {
			t.Fatalf("got %q", got)
		}
		return id
	}
	asked.send(`42["ask"]`)
	first := question()
	other.send(`43` + first + `["forged"]`)
	other.send(`42["nobody hears this"]`)
	asked.send(`43` + first + `["first"]`)
	second := question()
	if second == first {
		t.Errorf("two questions have the id %s", first)
	}
	asked.send(`43` + first + `["replayed"]`)
	asked.send(`43` + second + `["second"]`)
	if got := asked.read(); got != `42["answers","first","second"]` {
		t.Errorf("got %q", got)
	}
	asked.Close()
	other.Close()
}
