// Socketio-peer is one side of a small conversation over Socket.IO, for trying the package with other implementations: a server
// with a handful of events, or a client that uses each of them and says how it went.
//
//	go run ./examples/socketio-peer serve -addr 127.0.0.1:3100
//	go run ./examples/socketio-peer dial [-transport polling|websocket|both] http://127.0.0.1:3100
//
//	connect    needs {"token":"secret"}; refused with {"message":"bad token","data":{"code":401}} otherwise
//	hello      from the server, once connected: {"sid"}
//	echo       any arguments, binary ones too: acked with the same
//	ask-me     the server emits "question" with the argument, waits for its ack and passes it on as its own
//	join       a room; acked with true
//	say        a room and a text: "said" with the text to the others in it; acked with true
//	shout      a room and a text: "said" with the text to all in it; acked with true
//	burst      n: emits "tick" 0 … n-1
//	kick       the server disconnects the client from the namespace
//	cut        the server closes the connection, so that the client connects again
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
