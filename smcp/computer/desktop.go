package computer

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
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
	out := []string{}
	bytes := 0
	for _, w := range sortWindows(c.catalog.windows(uri), c.ledger.servers()) {
		if size >= 0 && len(out) >= size || bytes >= maxDesktop {
			break
		}
		text, ok := c.catalog.readWindow(ctx, w)
		if !ok {
			continue
		}
		bytes += len(text)
		out = append(out, text)
	}
	return out
}
