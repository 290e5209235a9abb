package fakemcp

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
)

// Main is the program: it reads args, serves stdio or HTTP until ctx or stdin ends, and
// returns the exit code. Over HTTP it prints "listening on URL" to stderr once it does.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fakemcp", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		cfg      = Config{Stderr: stderr}
		address  = flags.String("http", "", "serve HTTP on this `address` instead of stdio: /mcp, and /sse for 2024-11-05")
		versions = flags.String("versions", "", "protocol versions to speak, newest first, with commas between; all if empty")
		start    = flags.String("init", "", "how to begin: hang, exit, error, junk, hang-discover or exit-discover")
		immune   = flags.Bool("immune", false, "stay when stdin closes and when told to end: only a kill helps")
		linger   = flags.Bool("linger", false, "stay when stdin closes, until the process is told to end")
	)
	flags.StringVar(&cfg.Name, "name", "", "name of the server")
	flags.IntVar(&cfg.Tools, "tools", 0, "how many further tools to offer")
	flags.IntVar(&cfg.Pages, "pages", 1, "how many pages tools/list takes")
	flags.BoolVar(&cfg.Bare, "bare", false, "list only the further tools")
	flags.BoolVar(&cfg.Broken, "broken", false, "list tools with broken schemas")
	flags.BoolVar(&cfg.ListChangedBeforeInit, "list-changed-before-init", false, "send tools/list_changed ahead of the initialize result")
	flags.DurationVar(&cfg.StartDelay, "start-delay", 0, "wait before the answer to initialize and server/discover")
	flags.BoolVar(&cfg.Stream, "stream", false, "answer every HTTP request with an event stream")
	flags.BoolVar(&cfg.NoSessions, "no-sessions", false, "give out no HTTP session ids")
	flags.IntVar(&cfg.LoseSession, "lose-session", 0, "forget an HTTP session after so many tools/call")
	flags.StringVar(&cfg.Log, "log", "", "append events to this `file`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	cfg.Init = Init(*start)
	if *immune {
		ctx = context.WithoutCancel(ctx)
	}
	if *versions != "" {
		cfg.Versions = strings.Split(*versions, ",")
	}
	server, err := New(cfg)
	switch {
	case err != nil:
	case *address != "":
		err = server.ListenAndServe(ctx, *address, func(a net.Addr) {
			fmt.Fprintf(stderr, "fakemcp: listening on http://%s/mcp\n", a)
		})
	default:
		ended := make(chan error, 1)
		go func() { ended <- server.ServeStdio(ctx, stdin, stdout) }()
		select {
		case err = <-ended:
			if *linger || *immune {
				<-ctx.Done()
			}
		case <-ctx.Done():
			// A read of a terminal or a pipe may be stuck for good; it ends with the process.
		}
	}
	// No Close: spawned processes are meant to survive, and the process ends here.
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
