package computer

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
)

// Bounds of the desktop.
const (
	maxWindows     = 64      // of one server
	maxDesktop     = 4 << 20 // bytes of all windows
	maxWindowBytes = 512 << 10
	windowTime     = 10 * time.Second
)

func isWindow(uri string) bool { return strings.HasPrefix(uri, "window://") }

// window is a resource that appears on the desktop.
type window struct {
	server     string
	uri        string
	priority   float64
	fullscreen bool
}

// windowOf reads the position of a window: from annotations and _meta in 0.2 and later, and from the
// query of the URI before.
func windowOf(server string, raw json.RawMessage) window {
	w := window{server: server, uri: rawjson.Text(rawjson.Get(raw, "uri"))}
	var query url.Values
	if u, err := url.Parse(w.uri); err == nil {
		query = u.Query()
	}
	if p := rawjson.GetPath(raw, "annotations", "priority"); p != nil {
		if f, err := strconv.ParseFloat(string(p), 64); err == nil && f >= 0 && f <= 1 {
			w.priority = f
		}
	} else if f, err := strconv.ParseFloat(query.Get("priority"), 64); err == nil && f >= 0 {
		w.priority = f
	}
	switch full := rawjson.GetPath(raw, "_meta", "fullscreen"); {
	case full != nil:
		w.fullscreen = string(full) == "true"
	default:
		text := strings.ToLower(query.Get("fullscreen"))
		w.fullscreen = text == "true" || text == "1" || text == "yes" || text == "on"
	}
	return w
}

// sortWindows returns the windows in desktop order: servers by last use and then by name, windows of
// a server by priority. A fullscreen window hides the others of its server; of two, the one with the
// higher priority stays.
func sortWindows(windows []window, recent []string) []window {
	byServer := map[string][]window{}
	var servers []string
	for _, w := range windows {
		if byServer[w.server] == nil {
			servers = append(servers, w.server)
		}
		byServer[w.server] = append(byServer[w.server], w)
	}
	rank := func(server string) int {
		if i := slices.Index(recent, server); i >= 0 {
			return i
		}
		return len(recent)
	}
	slices.SortStableFunc(servers, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
	var out []window
	for _, server := range servers {
		all := byServer[server]
		slices.SortStableFunc(all, func(a, b window) int { return cmp.Compare(b.priority, a.priority) })
		if i := slices.IndexFunc(all, func(w window) bool { return w.fullscreen }); i >= 0 {
			out = append(out, all[i])
			continue
		}
		out = append(out, all...)
	}
	return out
}

// Desktop returns the windows of all servers, each as its URI, an empty line and its text. size
// limits their number unless it is negative. uri selects one window; "" selects all.
func (c *Computer) Desktop(ctx context.Context, size int, uri string) []string {
	c.mu.Lock()
	var windows []window
	for _, s := range c.servers {
		if l := c.book.listings[s.Name]; l != nil {
			for _, raw := range l.windows[:min(len(l.windows), maxWindows)] {
				if w := windowOf(s.Name, raw); uri == "" || w.uri == uri {
					windows = append(windows, w)
				}
			}
		}
	}
	recent := c.ledger.servers()
	c.mu.Unlock()
	out := []string{}
	bytes := 0
	for _, w := range sortWindows(windows, recent) {
		if size >= 0 && len(out) >= size || bytes >= maxDesktop {
			break
		}
		text, ok := c.book.readWindow(ctx, w)
		if !ok {
			continue
		}
		bytes += len(text)
		out = append(out, text)
	}
	return out
}

// readWindow returns a window's entry. ok is false if the window has no content.
func (b *toolBook) readWindow(ctx context.Context, w window) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, windowTime)
	defer cancel()
	up, ok := b.c.manager.Upstream(w.server)
	if !ok {
		return "", false
	}
	result, err := up.Call(ctx, "resources/read", rawjson.Object("uri", rawjson.Quote(w.uri)), nil)
	if err != nil {
		b.c.log.Warn("a window cannot be read and is left out", "server", w.server, "uri", w.uri, "err", err)
		return "", false
	}
	var parts []string
	n := 0
	_ = rawjson.EachElement(rawjson.Get(result, "contents"), func(v []byte) bool { // an unreadable answer has no parts
		n++
		if text := rawjson.Text(rawjson.Get(v, "text")); text != "" {
			parts = append(parts, text)
		}
		return true
	})
	if n == 0 {
		return "", false
	}
	body := strings.TrimSpace(strings.Join(parts, "\n\n"))
	if len(body) > maxWindowBytes {
		body = strings.ToValidUTF8(body[:maxWindowBytes], "") + "…"
	}
	if body == "" {
		return w.uri, true
	}
	return w.uri + "\n\n" + body, true
}

// watchWindows subscribes to the windows of a server and tells the office of their changes.
func (b *toolBook) watchWindows(server string, l *listing) {
	up, ok := b.c.manager.Upstream(server)
	if !ok || len(l.windows) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(b.c.ctx)
	var once sync.Once
	b.c.mu.Lock()
	if b.c.closed || b.listings[server] != l {
		b.c.mu.Unlock()
		cancel()
		return
	}
	l.stop = func() { once.Do(cancel) }
	b.c.wg.Go(func() {
		var stops []func()
		for _, raw := range l.windows[:min(len(l.windows), maxWindows)] {
			stop, err := up.SubscribeResource(ctx, rawjson.Text(rawjson.Get(raw, "uri")), func(json.RawMessage) { b.c.office.changed(smcp.EventUpdateDesktop) })
			if err != nil {
				b.c.log.Debug("a window cannot be watched", "server", server, "err", err)
				break // the server does not support it
			}
			stops = append(stops, stop)
		}
		<-ctx.Done()
		for _, stop := range stops {
			stop()
		}
	})
	b.c.mu.Unlock()
}
