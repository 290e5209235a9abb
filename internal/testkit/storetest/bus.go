package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// An answer is the result of an Ask.
type answer struct {
	m   store.Message
	err error
}

func ask(b store.Bus, subject string, h store.Header, body string, timeout time.Duration) answer {
	got := make(chan answer, 2)
	b.Ask(subject, h, []byte(body), timeout, func(m store.Message, err error) { got <- answer{m, err} })
	return <-got
}

// equal reports whether two headers say the same, in any order.
func equal(a, b store.Header) bool {
	for _, field := range a {
		if value, ok := b.Lookup(field[0]); !ok || value != field[1] {
			return false
		}
	}
	return len(a) == len(b)
}

// Bus tests messages from a to listeners at b. Both may be one.
func Bus(t *testing.T, a, b store.Bus) {
	var mu sync.Mutex
	var heard []store.Message
	there := false
	stop, err := b.Listen("bus.tell", func(m store.Message) {
		mu.Lock()
		defer mu.Unlock()
		if there = true; len(m.Body) > 0 { // one without a body asks whether the listener is there, and may come late
			heard = append(heard, m)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	// The interest reaches other servers a moment later.
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(heard) }
	wait(t, "the first message", func() bool { _ = a.Tell("bus.tell", nil, nil); mu.Lock(); defer mu.Unlock(); return there })

	header, body := store.Header{{"Weir-V", "1"}, {"Weir-From", "abc def"}, {"Empty", ""}}, []byte("0")
	const many = 500
	for i := range many {
		body = append(body[:0], fmt.Sprint(i)...) // the caller's again
		if err := a.Tell("bus.tell", header, body); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "all messages", func() bool { return count() == many })
	mu.Lock()
	for i, m := range heard {
		if string(m.Body) != fmt.Sprint(i) || m.Subject != "bus.tell" || !equal(m.Header, header) || m.Reply != nil {
			t.Errorf("message %d: %+v", i, m)
			break
		}
	}
	mu.Unlock()
	if err := a.Tell("bus.none", nil, nil); err != nil {
		t.Errorf("a message without listeners: %v", err)
	}
	stop()
	time.Sleep(50 * time.Millisecond)
	if err := a.Tell("bus.tell", nil, []byte("late")); err != nil {
		t.Error(err)
	}

	testAsk(t, a, b)
	if count() != many {
		t.Error("a listener heard a message after its end")
	}
	large := bytes.Repeat([]byte("x"), store.MaxMessage)
	for what, err := range map[string]error{
		"a large body":        a.Tell("bus.tell", nil, append(large, 'x')),
		"a wildcard":          a.Tell("bus.*", nil, nil),
		"an empty subject":    a.Tell("", nil, nil),
		"a line in a header":  a.Tell("bus.tell", store.Header{{"A", "b\r\nC: d"}}, nil),
		"a large header":      a.Tell("bus.tell", store.Header{{"A", strings.Repeat("x", 20<<10)}}, nil),
		"a question's header": ask(a, "bus.tell", store.Header{{"é", ""}}, "", time.Second).err,
	} {
		if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNobody) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := b.Listen("bus.>", func(store.Message) {}); err == nil {
		t.Error("a wildcard can be listened to")
	}
}

func testAsk(t *testing.T, a, b store.Bus) {
	began := time.Now()
	if got := ask(a, "bus.none", nil, "", 10*time.Second); !errors.Is(got.err, store.ErrNobody) || time.Since(began) > 5*time.Second {
		t.Errorf("a question without listeners: %v after %v", got.err, time.Since(began))
	}
	var parked []func(store.Header, []byte) error
	var mu sync.Mutex
	stop, err := b.Listen("bus.ask", func(m store.Message) {
		switch string(m.Body) {
		case "silence":
		case "later":
			mu.Lock()
			defer mu.Unlock()
			parked = append(parked, m.Reply)
		default:
			for range 2 { // the second is ignored
				if err := m.Reply(store.Header{{"Weir-V", m.Header.Get("Weir-V") + "1"}}, append([]byte("re: "), m.Body...)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the first answer", func() bool { return ask(a, "bus.ask", nil, "hello", 300*time.Millisecond).err == nil })
	large := strings.Repeat("x", store.MaxMessage-4)
	for _, text := range []string{"", "a", large} {
		got := ask(a, "bus.ask", store.Header{{"Weir-V", "1"}}, text, 10*time.Second)
		if got.err != nil || string(got.m.Body) != "re: "+text || got.m.Header.Get("Weir-V") != "11" {
			t.Errorf("an answer of %d bytes, %v, %v", len(got.m.Body), got.m.Header, got.err)
		}
	}
	if got := ask(a, "bus.ask", nil, "silence", 100*time.Millisecond); !errors.Is(got.err, store.ErrUnavailable) {
		t.Errorf("no answer: %v", got.err)
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			want := fmt.Sprint("re: ", i)
			if got := ask(a, "bus.ask", nil, fmt.Sprint(i), 10*time.Second); got.err != nil || string(got.m.Body) != want {
				t.Errorf("%q, %v, want %q", got.m.Body, got.err, want)
			}
		})
	}
	all.Wait()
	late := make(chan answer, 1)
	a.Ask("bus.ask", nil, []byte("later"), 10*time.Second, func(m store.Message, err error) { late <- answer{m, err} })
	wait(t, "the question", func() bool { mu.Lock(); defer mu.Unlock(); return len(parked) == 1 })
	if err := parked[0](nil, []byte("at last")); err != nil {
		t.Error(err)
	}
	if got := <-late; got.err != nil || string(got.m.Body) != "at last" {
		t.Errorf("%q, %v", got.m.Body, got.err)
	}
	stop() // a question that was on its way gets no answer
	wait(t, "the end of the listener", func() bool {
		return errors.Is(ask(a, "bus.ask", nil, "", 300*time.Millisecond).err, store.ErrNobody)
	})
}
