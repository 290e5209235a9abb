package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/web/attach"
	"github.com/weir-mcp/weir/mcp"
)

// Time limits of weir attach.
const (
	startWait   = 10 * time.Second // for a gateway to run
	lookPause   = 20 * time.Millisecond
	defaultIdle = 30 * time.Minute // of a gateway that attach has started
	maxLog      = 4 << 20          // a longer log is set aside before the next start
)

// attachFlags are the flags of weir attach.
type attachFlags struct {
	client, config, mode, profile string
	idle                          time.Duration
}

func attachCommand(a *process) *cobra.Command {
	var f attachFlags
	cmd := &cobra.Command{
		Use:   "attach",
		Short: "Connect a client on standard input and output to the running gateway",
		Long: `Carry MCP between a client that starts servers as commands and the running
gateway, so that all clients share one. The client's file needs no URL and no
token. If no gateway runs, one is started in the background; it ends 30 minutes
after its last client has left, and its log is in the state folder.

If the gateway ends, calls in flight get an error and the next message starts it
again. Standard output carries only messages.`,
		Example: "  weir attach --client claude-desktop\n  claude mcp add weir -- weir attach --client claude-code",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.mode != "" && !slices.Contains(config.Modes, config.Mode(f.mode)) {
				return failf(exitUsage, "--mode %q: it must be auto, plain, gateway or proxy", f.mode)
			}
			return runAttach(a, cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.client, "client", "", "the name of the client, for the gateway's log")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration (default: as weir serve; your own if this folder's is not agreed to)")
	cmd.Flags().StringVar(&f.mode, "mode", "", "auto, plain, gateway or proxy, in place of the configuration's")
	cmd.Flags().StringVar(&f.profile, "profile", "", "a profile of the configuration, in place of the whole catalog")
	oneOf(cmd, "mode", string(config.ModeAuto), string(config.ModePlain), string(config.ModeGateway), string(config.ModeProxy))
	cmd.Flags().DurationVar(&f.idle, "idle-exit", defaultIdle, "how long a gateway that this command starts runs without clients")
	return cmd
}

func runAttach(a *process, ctx context.Context, f attachFlags) error {
	c, err := findForAttach(a, f.config)
	if err != nil {
		return err
	}
	if _, err := descend(a.lookupEnv, c.path); err != nil {
		return err
	}
	header := http.Header{}
	if f.client != "" {
		header.Set(attach.ClientHeader, f.client)
	}
	if f.mode != "" {
		header.Set("Weir-Mode", f.mode)
	}
	finder := &gatewayFinder{a: a, config: c, header: header, profile: f.profile, idle: f.idle}
	return attach.Run(ctx, attach.Options{In: a.stdin, Out: a.stdout.Writer, Dial: finder.dial, Note: a.note})
}

// findForAttach returns the configuration of weir attach. Clients start it in any folder, so a file
// there without an agreement does not keep it from the person's own configuration.
func findForAttach(a *process, named string) (*foundConfig, error) {
	c, err := findConfig(a.lookupEnv, named)
	if err != nil {
		return nil, err
	}
	refused := c.check()
	if refused == nil {
		return c, nil
	}
	own, err := places(a.lookupEnv).Config()
	if err != nil {
		return nil, refused
	}
	if info, err := os.Stat(own); err != nil || !info.Mode().IsRegular() {
		return nil, refused
	}
	a.note("%v; your own configuration is used: %s", refused, own)
	return &foundConfig{path: own, ours: true}, nil
}

// A gatewayFinder connects to the gateway of a configuration and starts it if it does not run.
type gatewayFinder struct {
	a       *process
	config  *foundConfig
	header  http.Header
	profile string // "" is the whole catalog
	idle    time.Duration
}

// dial implements attach.Options.Dial.
func (g *gatewayFinder) dial(ctx context.Context) (attach.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	conn, err := g.connect(ctx)
	if conn != nil || err != nil {
		return conn, err
	}
	record, _, err := runPath(g.a.lookupEnv, g.config.path)
	if err != nil {
		return nil, err
	}
	unlock, err := place.Lock(ctx, strings.TrimSuffix(record, ".json")+".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if conn, err := g.connect(ctx); conn != nil || err != nil {
		return conn, err // another attach has started it
	}
	return g.start(ctx, logPath(record))
}

// connect connects to the gateway that runs. Without one both results are nil.
func (g *gatewayFinder) connect(ctx context.Context) (attach.Conn, error) {
	f := readRunFile(g.a.lookupEnv, g.config.path)
	if f == nil || !f.runs(ctx) {
		return nil, nil
	}
	header := g.header.Clone()
	header.Set("Authorization", "Bearer "+f.Token)
	at := f.URL
	if g.profile != "" {
		at += "/" + url.PathEscape(g.profile)
	}
	conn, err := attach.Dial(ctx, at, header)
	if err != nil && !f.runs(ctx) {
		return nil, nil // it ended just now
	}
	if err != nil && g.profile != "" {
		return nil, fmt.Errorf("%w (it is weir %s, this is %s; --profile %s needs a profile of this name that is open to the caller %s)", err, f.Version, g.a.version, g.profile, mcp.LocalPrincipal)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (it is weir %s, this is %s)", err, f.Version, g.a.version)
	}
	return conn, nil
}

// logPath returns the log of the gateway with a run file.
func logPath(record string) string {
	state := filepath.Dir(filepath.Dir(record))
	return filepath.Join(state, "logs", strings.TrimSuffix(filepath.Base(record), ".json")+".log")
}

// start starts the gateway in the background and connects to it.
func (g *gatewayFinder) start(ctx context.Context, log string) (attach.Conn, error) {
	if info, err := os.Stat(log); err != nil || info.Size() > maxLog {
		if err := os.Rename(log, log+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err := place.Write(log, nil); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	path := absolutePath(g.config.path)
	args := []string{"serve", "--idle-exit", g.idle.String()}
	if runtime.GOOS != "windows" { // there, a file that is also standard error cannot be set aside
		args = append(args, "--log-file", log)
	}
	if g.config.ours {
		args = append(args, "--config", path)
	}
	// The gateway outlives this command and its client, so neither ctx nor the client may end it.
	ended, forget, err := startBackground(args, g.a.environ(), filepath.Dir(path), file)
	if err != nil {
		return nil, fmt.Errorf("weir serve cannot be started: %w", err)
	}
	defer forget()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return nil, fmt.Errorf("weir serve ended at once: %s", lastLines(log))
		case <-ctx.Done():
			return nil, fmt.Errorf("the gateway does not run %s after it was started; its log is %s: %s", startWait, log, lastLines(log))
		case <-tick.C:
		}
		if conn, err := g.connect(ctx); conn != nil || err != nil {
			return conn, err
		}
	}
}

// lastLines returns the end of a log for a message.
func lastLines(path string) string {
	data, err := place.Read(path, 2*maxLog)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return text.Line(strings.Join(lines[max(0, len(lines)-3):], " "), 600)
}
