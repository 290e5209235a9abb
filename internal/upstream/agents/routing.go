package agents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
)

// maxRouting bounds a routing.json.
const maxRouting = 4 << 20

// look is how often a routing.json is checked: it may be in a folder without notifications of
// changes, such as one that is mounted into a container.
const look = 500 * time.Millisecond

// Routing is the content of a routing.json.
type Routing struct {
	// Port is the router's own, 0 where the file does not say.
	Port int
	// Routes are the agents, sorted by name.
	Routes []Route
	// Problems are entries that cannot be used and are left out.
	Problems []string
}

// Route is one agent of a routing.json.
type Route struct{ Name, URL string }

// parseRouting reads the text of a routing.json:
//
//	{"port": 8088, "routes": {"NAME": {"hostPort": 7001, …}}}
//
// An agent is at http://localhost:{hostPort}/mcp; host and path change these parts, url the whole.
// A route may be the bare port as well. Other keys, which other programs read, are ignored.
func parseRouting(data []byte) (Routing, error) {
	var file struct {
		Port   port                       `json:"port"`
		Routes map[string]json.RawMessage `json:"routes"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &file); err != nil {
		return Routing{}, fmt.Errorf("routing.json must be {\"port\":…, \"routes\": {NAME: {\"hostPort\":…}}}: %w", err)
	}
	out := Routing{Port: int(file.Port)}
	for _, name := range slices.Sorted(maps.Keys(file.Routes)) {
		url, err := routeURL(file.Routes[name])
		if err == nil {
			_, err = config.NewServer(name, url)
		}
		if err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("routes.%s: %v", name, err))
			continue
		}
		out.Routes = append(out.Routes, Route{name, url})
	}
	return out, nil
}

// routeURL is where a route leads.
func routeURL(raw json.RawMessage) (string, error) {
	var r struct {
		HostPort port   `json:"hostPort"`
		Host     string `json:"host"`
		Path     string `json:"path"`
		URL      string `json:"url"`
	}
	if json.Unmarshal(raw, &r.HostPort) != nil {
		if err := json.Unmarshal(raw, &r); err != nil {
			return "", fmt.Errorf("must be {\"hostPort\": PORT}: %w", err)
		}
	}
	if r.URL != "" {
		return r.URL, nil
	}
	if r.HostPort == 0 {
		return "", errors.New("hostPort is missing")
	}
	path := "/" + strings.TrimPrefix(cmp.Or(r.Path, "/mcp"), "/")
	return "http://" + net.JoinHostPort(cmp.Or(r.Host, "localhost"), strconv.Itoa(int(r.HostPort))) + path, nil
}

// port is a port number, or one written as a text.
type port int

// UnmarshalJSON implements json.Unmarshaler.
func (p *port) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	n, err := strconv.Atoi(strings.Trim(string(data), `"`))
	if err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%.20s is no port", data)
	}
	*p = port(n)
	return nil
}

// ReadRouting reads a routing.json.
func ReadRouting(path string) (Routing, error) {
	data, err := readRouting(path)
	if err != nil {
		return Routing{}, err
	}
	r, err := parseRouting(data)
	if err != nil {
		return Routing{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func readRouting(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxRouting {
		return nil, fmt.Errorf("%s has %d bytes, more than the bound of %d", path, info.Size(), maxRouting)
	}
	return place.ReadFile(path)
}

// WatchRouting reads a routing.json at once and again whenever it changes, until ctx ends. It calls
// fn, on this goroutine, with the result of ReadRouting. It waits for a missing file and reports
// its absence once.
func WatchRouting(ctx context.Context, path string, fn func(Routing, error)) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var last, broken []byte
	var failed string
	for {
		data, err := readRouting(path)
		switch {
		case err != nil:
			// A file that is replaced is away for a moment; only a start without
			// it, or another fault, is worth a word.
			if failed != err.Error() && (last == nil || !errors.Is(err, fs.ErrNotExist)) {
				failed = err.Error()
				fn(Routing{}, err)
			}
		case last == nil || !bytes.Equal(data, last):
			r, err := parseRouting(data)
			if err != nil && (broken == nil || !bytes.Equal(data, broken)) {
				broken = append([]byte{}, data...) // it may be half written: another look
				break
			}
			last, broken, failed = append([]byte{}, data...), nil, ""
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			fn(r, err)
		default:
			broken = nil // a file that looked half written a moment ago was half written
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
