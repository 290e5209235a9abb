package cli

import (
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

// Some clients end the whole tree of processes below a server when they end. A gateway that weir
// attach starts serves other clients too, so it must not stand in that tree:
//
//	client ─▶ weir attach ─▶ weir background ─▶ weir serve
//	                             ends at once      its parent is the system's now
//
// The two keep a pipe, so weir attach learns when the gateway ends without being its parent.

// backgroundCommand starts weir with its arguments and its own streams, and ends.
func backgroundCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "background ARG...",
		Short:              "Start weir outside of the caller's tree of processes",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			cmd := exec.Command(exe, args...)
			cmd.SysProcAttr = detached()
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
			if err := cmd.Start(); err != nil {
				return err
			}
			return cmd.Process.Release()
		},
	}
}

// startBackground starts weir in a folder and writes its output to a file. The channel closes when
// the started process has ended; forget ends the wait for that.
func startBackground(args, env []string, dir string, log *os.File) (ended <-chan struct{}, forget func(), err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	// The started process holds the other end as its standard input, and writes nothing to it.
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(exe, append([]string{"background"}, args...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, env, detached()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, log, log
	err = cmd.Run()
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() { // ends with the started process, or with forget
		defer close(done)
		_, _ = io.Copy(io.Discard, ours)
	}()
	return done, func() { ours.Close(); <-done }, nil
}
