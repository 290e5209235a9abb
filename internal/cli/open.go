package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/web/api"
)

func openCommand(a *process) *cobra.Command {
	var t target
	var noBrowser, asJSON bool
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the running gateway's console in your browser",
		Long: `Open the console of the running gateway in your browser: servers, the catalog, live
calls and tables. Without a browser it prints the address. The address has no token:
where the gateway wants one, the page asks for it. To restart servers, accept definitions
and approve calls there, enter the code that this command prints: it is good once, within
a minute, in a browser of this machine.`,
		Example: "  weir open\n  weir open --no-browser --url https://weir.example.com/mcp",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, _, err := askedGateway(a, cmd.Context(), t)
			if at == "" || err != nil && !refusedToken(err) {
				return err
			}
			page, err := consoleOf(cmd.Context(), at) // whatever the token of this command: the page asks
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, map[string]string{"url": page})
			}
			if noBrowser || openBrowser(a.lookupEnv, page) != nil {
				_, err = fmt.Fprintln(a.stdout, page)
			} else {
				_, err = fmt.Fprintf(a.stdout, "%s is open in your browser.\n", page)
			}
			if code := operatorCode(a, cmd.Context(), t); code != "" {
				a.note("To operate the gateway there, enter this code within a minute: %s", code)
			}
			return err
		},
	}
	t.runningFlags(cmd)
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address in place of opening it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the address as JSON, and open nothing")
	return cmd
}

// operatorCode returns a code with which a browser of this machine operates the gateway, "" if this
// command may not operate it. The code is not part of an address: other users see the arguments of a
// browser.
func operatorCode(a *process, ctx context.Context, t target) string {
	o, err := findOperator(a, ctx, t)
	if err != nil || o.bearer == "" {
		return ""
	}
	var c api.Code
	if err := o.post(ctx, "codes", struct{}{}, &c); err != nil {
		return "" // a caller who may not operate the gateway opens the page as well
	}
	return c.Code
}

// consoleOf returns the address of the console of the gateway at an MCP URL, if the gateway serves it.
// The address has no credentials: other users see the arguments of a browser.
func consoleOf(ctx context.Context, mcpURL string) (string, error) {
	at, err := siblingURL(mcpURL, "console")
	if err != nil {
		return "", err
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", failf(exitUsage, "--url %q is no http or https URL; it looks like %s", withoutPassword(mcpURL), defaultURL)
	}
	u.User = nil
	at = u.String()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	resp, err := request{method: http.MethodGet, url: at, peer: "the gateway at " + at, moves: true}.send(ctx)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxHealth))
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return "", failf(exitRefused, "the gateway at %s serves no console: set console: true in its configuration", withoutPassword(mcpURL))
	case resp.StatusCode != http.StatusOK:
		return "", failf(exitRefused, "the console at %s answers %s", at, resp.Status)
	}
	return at, err
}

// askedGateway returns the URL and the token of the running gateway that a command asks. If none runs
// it returns an error. If the gateway refuses the token it returns its URL and an error, for which
// refusedToken holds.
func askedGateway(a *process, ctx context.Context, t target) (at, token string, err error) {
	at, token, err = runningURL(a, ctx, t)
	if err == nil && at == "" {
		err = failf(exitUnavailable, "no gateway runs with this folder's configuration: start one with weir serve, or name another one with --url")
	}
	return at, token, err
}
