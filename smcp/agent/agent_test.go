package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
)

func TestMain(m *testing.M) { leak.Main(m) }

// What notifications would have told that found no place is found out.
func TestDroppedNotifications(t *testing.T) {
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()
	computer := func(name string) *member.Member {
		m, err := member.New(member.Options{URL: server.URL, Role: smcp.RoleComputer, Name: name, Office: "o"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	old := computer("old")
	computer("stays")
	seen := make(chan string, 10)
	c, err := Connect(t.Context(), Options{URL: server.URL, Office: "o",
		OnEnter: func(name string) { seen <- "+" + name }, OnLeave: func(name string) { seen <- "-" + name }, OnUpdate: func(name string) { seen <- "*" + name }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hear := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case s := <-seen:
				got = append(got, s)
			case <-time.After(30 * time.Second):
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("heard %q, want %q", got, want)
		}
	}
	hear("+old", "+stays")
	begun, resume := make(chan struct{}), make(chan struct{})
	c.later(func() { close(begun); <-resume })
	<-begun
	for range maxNotices {
		c.later(func() {})
	}
	_ = old.Close()
	computer("new")
	for end := time.Now().Add(30 * time.Second); !c.dropped.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no notification was dropped")
		}
	}
	close(resume)
	hear("*stays", "+new", "-old")
}

func TestReqID(t *testing.T) {
	a, b := NewReqID(), NewReqID()
	if uuid4 := regexp.MustCompile(`^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$`); !uuid4.MatchString(a) || a == b {
		t.Errorf("%s %s", a, b)
	}
}

func TestFlags(t *testing.T) {
	for result, want := range map[string][2]bool{
		`{"isError":true,"meta":{"a2c_cancelled":true}}`: {true, false},
		`{"_meta":{"a2c_timeout":true}}`:                 {false, true},
		`{"meta":{"a2c_cancelled":false},"_meta":null}`:  {false, false},
		`{}`: {false, false},
	} {
		if got := [2]bool{Cancelled(json.RawMessage(result)), TimedOut(json.RawMessage(result))}; got != want {
			t.Errorf("%s: %v, want %v", result, got, want)
		}
	}
}

// An agent may change its office, and one that cannot get in says why.
func TestJoinAndLeave(t *testing.T) {
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()
	a, err := Connect(t.Context(), Options{URL: server.URL, Office: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := Connect(t.Context(), Options{URL: server.URL, Office: "one"}); err == nil {
		t.Error("two agents are in one office")
	}
	if err := a.Join(t.Context(), "two"); err == nil {
		t.Error("an agent is in two offices")
	}
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Join(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	if room, err := a.ListRoom(t.Context()); err != nil || len(room) != 1 || room[0].OfficeID != "two" {
		t.Errorf("%v, %v", room, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := Connect(ctx, Options{URL: "http://127.0.0.1:1", Office: "one"}); err == nil {
		t.Error("there is no hub at port 1")
	}
}

// An agent joins an office, hears of Computers and calls their tools.
func Example() {
	h := hub.New(hub.Options{}) // elsewhere, in life
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()

	a, err := Connect(context.Background(), Options{
		URL: server.URL, Office: "lab",
		OnTools: func(computer string, tools []smcp.Tool) { fmt.Println(computer, "offers", len(tools), "tools") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	_, err = a.CallTool(context.Background(), ToolCall{Computer: "desk", Tool: "sum", Arguments: json.RawMessage(`{"a":1,"b":2}`)})
	fmt.Println(err)
	// Output: Computer with name 'desk' not found (404)
}
