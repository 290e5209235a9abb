package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/config"
)

// runningURL returns where the gateway runs that a command is to ask, and the token
// for it. It is "" where the gateway of this folder's configuration does not run.
func runningURL(a *process, ctx context.Context, t target) (at, token string, err error) {
	if token = t.token; token == "" {
		token, _ = a.lookupEnv("WEIR_TOKEN")
	}
	if at = t.url; at == "" {
		at, _ = a.lookupEnv("WEIR_URL")
	}
	if at != "" {
		return at, token, nil
	}
	path, err := config.Find(".")
	switch {
	case errors.Is(err, config.ErrNotFound):
		return defaultURL, token, nil
	case err != nil:
		return "", "", err
	}
	at, err = locate(a, ctx, path, token)
	return at, token, err
}

// locate returns the URL of the gateway that runs with a configuration, "" where
// none does. The error says that it runs and does not take the token: a command must
// not start the servers a second time because of that.
func locate(a *process, ctx context.Context, path, token string) (at string, err error) {
	if f := readRunFile(a.lookupEnv, path); f != nil {
		if f.runs(ctx) {
			return f.URL, checkToken(a, ctx, f.URL, token)
		}
		if err := f.remove(); err != nil {
			a.note("%s tells of a gateway that has ended, and cannot be removed: %v", f.path, err)
		}
	}
	return locateByAddress(a, ctx, path, token)
}

// locateByAddress looks for the gateway where the configuration has it listen: it
// may be another user's, or its file may be gone.
func locateByAddress(a *process, ctx context.Context, path, token string) (string, error) {
	opts := configOptions(a, ctx)
	opts.Inputs = func(config.Input) (string, bool, error) { return "unknown", true, nil } // only listen is looked at
	c, _, err := config.Load(path, opts)
	if err != nil {
		return "", nil // reading the file for real says what is wrong
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	at := "http://" + app.Dialable(app.ListenAddress(c)) + "/mcp"
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	h, err := fetchHealth(asking, at, token)
	switch {
	case err == nil && h.Name == app.ServerName && h.Config == absolute:
		return at, nil
	case refusedToken(err) && len(c.Auth.Tokens) > 0:
		return at, refusal(at, err)
	}
	return "", nil
}

// admitted returns an error where the gateway at an MCP URL does not take the token.
func checkToken(a *process, ctx context.Context, at, token string) error {
	asking, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	if _, err := fetchHealth(asking, at, token); refusedToken(err) {
		return refusal(at, err)
	}
	return nil // what else is wrong shows when it is called
}

func refusedToken(err error) bool {
	var failed *failure
	return errors.As(err, &failed) && failed.code == exitRefused
}

// refusal is the error of a command whose gateway runs and refuses its token.
func refusal(at string, err error) error {
	return failf(exitRefused, "%w (the gateway of this folder's configuration runs at %s, so its servers are not started a second time)", err, at)
}
