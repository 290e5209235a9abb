package computer

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
)

// TestNotices: many changes become one event of each name, after a pause, and none after the end.
func TestNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan string, 10)
		n := &notices{send: func(event string) { sent <- event }}
		for range 3 {
			n.add("b", "a")
			time.Sleep(debounce / 2)
			synctest.Wait()
		}
		if len(sent) > 0 {
			t.Errorf("%d events are sent while changes come", len(sent))
		}
		time.Sleep(debounce)
		synctest.Wait()
		n.add("c")
		n.close()
		n.add("d")
		time.Sleep(2 * debounce)
		synctest.Wait()
		close(sent)
		var got []string
		for event := range sent {
			got = append(got, event)
		}
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("sent %q", got)
		}
	})
}

// TestCatalogFollows: the catalog offers the tools of the servers that are configured, tells the office of changes, and
// takes nothing after its end.
func TestCatalogFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 10)
		n := &notices{send: func(event string) { told <- event }}
		log := slog.New(slog.DiscardHandler)
		c, err := New(Options{Name: "desk"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.WithoutCancel(t.Context()))
		book := newCatalog(t.Context(), c.inputs, n, log)
		book.manager = c.manager
		listed := func(server string, tools ...string) {
			l := primitive.Listing{Upstream: server}
			for _, name := range tools {
				l.Tools = append(l.Tools, json.RawMessage(`{"name":"`+name+`"}`))
			}
			book.Update(l)
		}
		names := func() (all []string) {
			for _, tool := range book.now().in(a2c.Dialect01) {
				all = append(all, tool.Name)
			}
			return all
		}
		listed("one", "early")
		if got := names(); got != nil {
			t.Errorf("%q of a server that is not configured", got)
		}
		servers := []*Server{{Name: "one", Forbidden: []string{"secret"}}, {Name: "two"}}
		if err := book.set(servers, map[string]*mcpserver.Server{"one": {}, "two": {}}, nil); err != nil {
			t.Fatal(err)
		}
		listed("one", "read", "secret")
		listed("two", "read", "write")
		if got := names(); !slices.Equal(got, []string{"write"}) || len(book.problems()) != 1 {
			t.Errorf("offered %q, problems %q", got, book.problems())
		}
		book.Remove("one")
		if got := names(); !slices.Equal(got, []string{"read", "write"}) {
			t.Errorf("without the first server: %q", got)
		}
		if err := book.set(servers[:1], map[string]*mcpserver.Server{"one": {}}, nil); err != nil {
			t.Fatal(err)
		}
		if got := names(); got != nil || book.server("two") != nil || book.server("one") != servers[0] {
			t.Errorf("of a server that was taken out: %q", got)
		}
		time.Sleep(2 * debounce)
		synctest.Wait()
		if len(told) != 2 || <-told != smcp.EventUpdateDesktop || <-told != smcp.EventUpdateTools {
			t.Error("the office was not told once of tools and once of windows")
		}
		book.close()()
		listed("one", "late")
		if got := names(); got != nil || book.set(nil, nil, nil) == nil {
			t.Errorf("after the end: %q", got)
		}
	})
}
