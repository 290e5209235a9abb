package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/web"
)

// runningURL returns the URL of the gateway that a command should ask, and its token. The URL is ""
// if no gateway runs for this folder's configuration.
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
	c, err := findConfig(a.lookupEnv, "")
	switch {
	case errors.Is(err, config.ErrNotFound):
		return defaultURL, token, nil
	case err != nil:
		return "", "", err
	}
	if at, err = locateByRecord(a, ctx, c.path, token); at != "" || err != nil {
		return at, token, err
	}
	if c.check() != nil {
		return "", token, nil // the token is not for an address that a stranger chose
	}
	at, err = locateByAddress(a, ctx, c.path, token)
	return at, token, err
}

// locateByRecord returns the URL of the gateway that has announced that it serves a configuration,
// "" if none runs. It returns an error if the gateway runs but refuses the token: the command must
// not start the servers a second time then.
func locateByRecord(a *process, ctx context.Context, path, token string) (at string, err error) {
	if f := readRunFile(a.lookupEnv, path); f != nil {
		if f.runs(ctx) {
			return f.URL, checkToken(ctx, f.URL, token)
		}
		if err := f.remove(); err != nil {
			a.note("%s tells of a gateway that has ended, and cannot be removed: %v", f.path, err)
		}
	}
	return "", nil
}

// locateByAddress is locateByRecord by the configured listen address. It finds gateways of other
// users, and those whose run file is missing. The person must have agreed to the configuration: it
// chooses where the token goes.
func locateByAddress(a *process, ctx context.Context, path, token string) (string, error) {
	opts := configOptions(a, ctx)
	// only listen is used
	opts.Inputs = func(config.Input) (string, bool, error) { return "unknown", true, nil }
	c, _, err := config.Load(path, opts)
	if err != nil {
		return "", nil // the command reports errors when it reads the file again
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	scheme := "http://"
	if c.TLS.Enabled() {
		scheme = "https://" // of another user's gateway: a gateway of this user has a run file
	}
	at := scheme + httpserver.Dialable(web.ListenAddress(c)) + "/mcp"
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	h, err := fetchHealth(asking, at, token)
	switch {
	case err == nil && h.Name == part.ServerName && h.Config == absolute:
		return at, nil
	case refusedToken(err) && c.Auth.Required():
		return at, refusal(at, err)
	}
	if foreign := new(tls.CertificateVerificationError); errors.As(err, &foreign) {
		return "", failf(exitUnavailable, "a program answers at %s, but not with a certificate for this name (%w); if it is the gateway, name it as its certificate does: --url %s", at, foreign.Err, cmp.Or(publicMCP(c), "https://HOST/mcp"))
	}
	return "", nil
}

// checkToken returns an error if the gateway at an MCP URL refuses the token.
func checkToken(ctx context.Context, at, token string) error {
	asking, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	if _, err := fetchHealth(asking, at, token); refusedToken(err) {
		return refusal(at, err)
	}
	return nil // other problems show at the first call
}

func refusedToken(err error) bool {
	var failed *failure
	return errors.As(err, &failed) && failed.code == exitRefused
}

// refusal returns the error of a command whose token a running gateway refuses.
func refusal(at string, err error) error {
	return failf(exitRefused, "%w (the gateway of this folder's configuration runs at %s, so its servers are not started a second time)", err, at)
}
