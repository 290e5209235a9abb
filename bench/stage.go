package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// openThreshold is a firewall's threshold that lets every result of the benchmark pass, so that all
// systems send the same bytes.
const openThreshold = 100_000_000

// stage is everything that runs while something is measured.
type stage struct {
	dir       string
	self      string // this program
	weir      string // weir's
	processes []*process

	upstream, proxy string // hosts
	bare            string // a proxy with the minimum of every gateway on net/http
	gateway, open   string
	controls        string // a gateway with every control on
	peers           []peer
}

func newStage(ctx context.Context, set settings) (*stage, error) {
	s := &stage{weir: set.weir}
	var err error
	if s.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return nil, err
	}
	if s.self, err = os.Executable(); err == nil && set.weir == "" {
		s.weir = filepath.Join(s.dir, "weir")
		err = build(ctx, s.weir)
	}
	if err == nil {
		s.upstream, err = s.start(ctx, "the upstream", s.self, "upstream", set.upstream)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// build makes the weir binary as make build does.
func build(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, "github.com/weir-mcp/weir/cmd/weir")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("weir cannot be built: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// stop ends every process, the last started first.
func (s *stage) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *stage) start(ctx context.Context, name, program string, args ...string) (host string, err error) {
	p, err := start(ctx, name, program, args...)
	if err != nil {
		return "", err
	}
	s.processes = append(s.processes, p)
	return p.host, nil
}

// pid returns the process at an address, 0 for one that the user has started.
func (s *stage) pid(host string) int {
	for _, p := range s.processes {
		if p.host == host {
			return p.cmd.Process.Pid
		}
	}
	return 0
}

// serveWeir starts a gateway with the servers and whatever else is in the
// configuration; everything else is as a user finds it.
func (s *stage) serveWeir(ctx context.Context, name string, config map[string]any) (host string, err error) {
	config["listen"] = "127.0.0.1:0"
	text, err := json.MarshalIndent(config, "", "  ") // which is YAML as well
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	return s.start(ctx, "weir ("+name+")", s.weir, "serve", "--config", file)
}

// startSystems starts the systems that load needs in addition to the upstream. measured is for how
// long each caller will call.
func (s *stage) startSystems(ctx context.Context, measured time.Duration) error {
	servers := func() map[string]any {
		return map[string]any{
			legacyName: map[string]any{"type": "http", "url": s.url(legacyName)},
			modernName: map[string]any{"type": "http", "url": s.url(modernName)},
		}
	}
	var err error
	if s.proxy, err = s.start(ctx, "the reverse proxy", s.self, "proxy", "http://"+s.upstream); err != nil {
		return err
	}
	if s.bare, err = s.start(ctx, "the bare hop", s.self, "hop", "http://"+s.upstream); err != nil {
		return err
	}
	if s.gateway, err = s.serveWeir(ctx, "gateway", map[string]any{"mcpServers": servers()}); err != nil {
		return err
	}
	if s.open, err = s.serveWeir(ctx, "open", map[string]any{"mcpServers": servers(), "firewall": map[string]any{"threshold_chars": openThreshold}}); err != nil {
		return err
	}
	s.controls, err = s.serveWeir(ctx, "controls", controlled(map[string]any{"mcpServers": servers()}, measured))
	return err
}

// maxMinute is for how long one caller can be measured before it may have made more calls in a
// minute than weir can be configured to allow.
const maxMinute = 8 * time.Second

// controlled adds every control of the dispatch path to a configuration, none of
// which refuses a call of callers that are measured for so long.
func controlled(config map[string]any, measured time.Duration) map[string]any {
	limit := map[string]any{"max_calls_per_session": maxCalls}
	if measured <= maxMinute {
		limit["max_calls_per_minute"] = 100_000 // the most that weir remembers
	}
	config["cache"] = map[string]any{"read_only": true}
	config["retry"] = map[string]any{"max_attempts": 3}
	config["tolerant_args"] = true
	config["rate_limits"] = map[string]any{
		"tool_execute": limit,
		"per_tool":     map[string]any{toolIDs(legacyName, toolDefs())[0]: limit},
	}
	config["policy"] = map[string]any{"default": "allow", "rules": []any{
		map[string]any{"action": "deny", "tool": "*:drop_*"},
		map[string]any{"action": "require_approval", "tags": []string{"destructive"}},
		map[string]any{"action": "deny", "namespace": "prod", "read_only": false},
	}}
	return config
}

// url is where the upstream is the server of this name.
func (s *stage) url(name string) string { return "http://" + s.upstream + "/" + name + "/mcp" }

// toolIDs are the ids that weir gives to tools of a server of this name, sorted: the id of echo is
// the first of the ids of toolDefs.
func toolIDs(server string, defs []json.RawMessage) []string {
	c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: server, Namespace: server, Tools: defs})
	var ids []string
	for _, e := range c.Entries() {
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	return ids
}
