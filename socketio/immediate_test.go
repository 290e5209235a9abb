package socketio

import (
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A handler of Config.Immediate does not overtake the handlers of earlier events, and its answers
// arrive like others.
func TestImmediateKeepsTheOrder(t *testing.T) {
	for way, engine := range ways {
		t.Run(way, func(t *testing.T) {
			got := make(chan string, 100)
			release := make(chan struct{}, 1)
			s := setup(t, Config{Immediate: []string{"now"}}, func(server *Server) {
				server.Of("/").On("slow", func(*Event) { <-release; got <- "slow" })
				server.Of("/").On("now", func(e *Event) {
					got <- string(e.Arg(0))
					_ = e.Ack(e.Arg(0))
				})
			})
			c := s.connect(ClientConfig{Engine: engine})
			for i := range 10 {
				if ack, err := c.EmitWithAck(t.Context(), "now", json.RawMessage(strconv.Itoa(i))); err != nil || joined(ack) != strconv.Itoa(i) {
					t.Fatalf("the ack of %d is %s (%v)", i, joined(ack), err)
				}
				if text := next(t, got); text != strconv.Itoa(i) {
					t.Fatalf("%s in place of %d", text, i)
				}
				if err := errors.Join(c.Emit("slow"), c.Emit("now", json.RawMessage("8")), c.Emit("now", json.RawMessage("9"))); err != nil {
					t.Fatal(err)
				}
				release <- struct{}{}
				for _, want := range []string{"slow", "8", "9"} {
					if text := next(t, got); text != want {
						t.Fatalf("%s in place of %s", text, want)
					}
				}
			}
		})
	}
}

// An in-process client's event of Config.Immediate has been handled when Emit returns, by the
// goroutine that called Emit.
func TestImmediateInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(Config{Immediate: []string{"now"}})
		n := 0 // under the race detector, another goroutine would show
		server.Of("/").On("now", func(*Event) { n++ })
		c := localTo(t, server, ClientConfig{})
		synctest.Wait() // the work of connecting has ended
		for i := range 5 {
			if err := c.Emit("now"); err != nil || n != i+1 {
				t.Fatalf("after %d events: %d were handled (%v)", i+1, n, err)
			}
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Each emit of a socket has its own time, although one timer serves all.
func TestAckTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(Config{})
		var late []*Event
		server.Of("/").On("event", func(e *Event) { late = append(late, e) })
		c := localTo(t, server, ClientConfig{})
		began := time.Now()
		var mu sync.Mutex
		took := map[int]time.Duration{}
		for i, timeout := range []time.Duration{9, 3, 6, 3, 0, 12} {
			err := c.Socket().EmitFunc(timeout*time.Second, "event", Payload{}, func(_ Payload, err error) {
				if timeout > 0 && !errors.Is(err, ErrAckTimeout) {
					t.Errorf("emit %d: %v", i, err)
				}
				mu.Lock()
				took[i] = time.Since(began) / time.Second
				mu.Unlock()
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		answered := make(chan error, 1)
		if err := c.Socket().EmitFunc(2*time.Second, "event", Payload{}, func(_ Payload, err error) { answered <- err }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := errors.Join(late[6].Ack(), <-answered); err != nil {
			t.Error(err)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if len(took) != 3 || took[1] != 3 || took[3] != 3 || took[2] != 6 {
			t.Errorf("after 7 seconds: %v", took)
		}
		if err := c.Socket().EmitFunc(time.Second, "event", Payload{}, func(_ Payload, err error) { answered <- err }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := <-answered; !errors.Is(err, ErrAckTimeout) || time.Since(began) != 8*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(took) != 5 || took[0] != 9 || took[5] != 12 {
			t.Errorf("after an hour: %v", took)
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
