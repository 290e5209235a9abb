package cli

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/setup/service"
)

// useEnvFile sets the variables of a file in this process; "" sets none. A service has no shell
// that would set them.
func useEnvFile(path string) error {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return failf(exitUsage, "--env-file: %w", err)
	}
	variables, err := config.ParseEnvFile(data)
	if err != nil {
		return failf(exitUsage, "--env-file %s: %w", path, err)
	}
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil {
			return failf(exitUsage, "--env-file %s: %s: %w", path, name, err)
		}
	}
	return nil
}

// useLogFile makes the log of this process go to a file; "" leaves it on standard error. The file
// stays open until the process ends, because the last line is the error that ends it.
func useLogFile(a *process, path string) error {
	if path == "" {
		return nil
	}
	file, err := service.OpenLog(path)
	if err != nil {
		return failf(exitUsage, "--log-file: %w", err)
	}
	a.stderr = terminal{Writer: file}
	return nil
}

// tellManager tells the manager of services that the gateway is ready, and returns the function that
// tells further states. Without a manager that listens, it does nothing.
func tellManager(a *process, log *slog.Logger) (tell func(state string)) {
	n := service.NewNotifier(a.env("NOTIFY_SOCKET"))
	tell = func(state string) {
		if err := n.Notify(state); err != nil {
			log.Warn("the manager of services cannot be told", "state", state, "err", fmt.Sprint(err))
		}
	}
	tell(service.Ready)
	return tell
}
