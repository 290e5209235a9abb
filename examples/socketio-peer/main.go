package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "socketio-peer:", err)
		os.Exit(1)
	}
}

const usage = "usage: socketio-peer serve [-addr HOST:PORT] | socketio-peer dial [-transport polling|websocket|both] URL"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("what to do? %s", usage)
	}
	flags := flag.NewFlagSet("socketio-peer "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	switch args[0] {
	case "serve":
		addr := flags.String("addr", "127.0.0.1:3100", "`address` to listen on")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return serve(ctx, *addr, stdout)
	case "dial":
		transport := flags.String("transport", "both", "polling, websocket, or `both`: polling with an upgrade")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return fmt.Errorf("dial needs one URL. %s", usage)
		}
		return dial(ctx, flags.Arg(0), *transport, stdout)
	default:
		return fmt.Errorf("unknown command %q. %s", args[0], usage)
	}
}
