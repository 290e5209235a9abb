package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Exit codes; exitCodes documents them.
const (
	exitOK          = 0
	exitTool        = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitRefused     = 4
	exitInternal    = 5
	exitInterrupted = 130
)

// exitCodes is the source of "weir help exit-codes" and of the table in docs/cli.md.
var exitCodes = []struct {
	code        int
	name        string
	description string
}{
	{exitOK, "ok", "Done."},
	{exitTool, "tool error", "The tool ran and answered an error of its own; or `weir audit verify` found a log that was changed."},
	{exitUsage, "usage", "The command line, the configuration or the arguments for a tool are wrong."},
	{exitUnavailable, "unavailable", "The gateway or the upstream cannot be reached, is starting or did not answer in time. Trying again may help."},
	{exitRefused, "refused", "The gateway answered an error: no such tool, path or handle, no permission, a bad selector, a rate limit; or the hub refused this Computer (`weir computer --exit-on-refusal`)."},
	{exitInternal, "internal", "Something failed in weir or on this machine."},
	{exitInterrupted, "interrupted", "The command was interrupted (Ctrl-C)."},
}

// exitCodeText returns the table for people.
func exitCodeText() string {
	name := 0
	for _, e := range exitCodes {
		name = max(name, len(e.name))
	}
	var b strings.Builder
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %-*s  %s\n", e.code, name, e.name, e.description)
	}
	return b.String()
}

// exitCodeTable returns the table as Markdown for docs/cli.md.
func exitCodeTable() string {
	var b strings.Builder
	b.WriteString("| code | name | meaning |\n| --- | --- | --- |\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", e.code, e.name, e.description)
	}
	return b.String()
}

// A failure is an error with an exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failf returns an error with an exit code.
func failf(code int, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// errQuiet is an exit code without a message: everything has been printed already.
type errQuiet int

func (e errQuiet) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitCode returns the exit code of a command that returned err.
func exitCode(err error) int {
	var (
		quiet    errQuiet
		failed   *failure
		refused  *gatewayError
		broken   *config.Error
		setup    *part.SetupError
		mcpError *mcp.Error
		answered *jsonrpc.Error
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &failed):
		return failed.code
	case errors.As(err, &refused):
		return refused.exitCode()
	case errors.As(err, &setup), errors.As(err, &broken), errors.Is(err, config.ErrNotFound):
		return exitUsage
	case errors.As(err, &mcpError):
		return kindExit(mcpError.Kind)
	case errors.As(err, &answered):
		return exitRefused
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitInternal
}

func kindExit(k mcp.Kind) int {
	switch k.Info().Gateway {
	case string(result.UpstreamUnavailable), string(result.UpstreamTimeout):
		return exitUnavailable
	case string(result.ArgsInvalid):
		return exitUsage
	}
	switch k {
	case mcp.KindInternal:
		return exitInternal
	case mcp.KindCancelled:
		return exitInterrupted
	}
	return exitRefused
}
