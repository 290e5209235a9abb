package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/upstream/credentials"
)

const (
	// callbackAddress is where browsers come back to. It is always the same, because some issuers
	// also compare the port; if it is taken, weir takes a free one and registers again.
	callbackAddress = "127.0.0.1:33419"
	callbackPath    = "/callback" // and paths below it
	// loginTime is how long a person may take at the browser.
	loginTime = 10 * time.Minute
	// finishTime is how long the exchange of a code for a token may take.
	finishTime = time.Minute
)

// loginRequest is how weir login signs in.
type loginRequest struct {
	config, as       string
	noBrowser, other bool
	asJSON           bool
}

func loginCommand(a *process) *cobra.Command {
	var r loginRequest
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Sign in at a server",
		Long: `Sign in at a server of the configuration that wants OAuth. It opens the page of the
server's authorization server in your browser. With --no-browser it prints the
address, and with --device a code that you enter at another device.

The tokens are kept sealed in weir's state folder and renewed before they end. A
running gateway uses them at once.

A server with credentials: user has a sign-in for each caller. This command makes
yours. For a gateway that tells callers apart, --as names the caller.`,
		Example: `  weir login github
  weir login github --device     # on a machine without a browser`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeConfigured(&r.config, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := configForLogin(a, cmd.Context(), r.config)
			if err != nil {
				return err
			}
			return login(a, cmd.Context(), c, args[0], r)
		},
	}
	cmd.Flags().StringVar(&r.config, "config", "", "configuration (default: the one of this folder, else yours)")
	cmd.Flags().StringVar(&r.as, "as", "", "the caller whose sign-in it is (credentials: user)")
	cmd.Flags().BoolVar(&r.noBrowser, "no-browser", false, "print the address in place of opening it")
	cmd.Flags().BoolVar(&r.other, "device", false, "sign in with a code at another device")
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("device", "no-browser")
	return cmd
}

// inputUnasked stands in for the values of inputs, in configurations that are read without asking.
const inputUnasked = "unknown"

// configForLogin reads the configuration without asking for inputs: servers with a sign-in need none.
func configForLogin(a *process, ctx context.Context, path string) (*config.Config, error) {
	found, err := findConfig(a.lookupEnv, path)
	if err != nil {
		return nil, err
	}
	if err := found.agree(a, ctx, true); err != nil {
		return nil, err
	}
	opts := configOptions(a, ctx)
	found.guard(&opts)
	opts.Inputs = func(config.Input) (string, bool, error) { return inputUnasked, true, nil }
	c, _, err := config.Load(found.path, opts)
	return c, err
}

// login signs in at a server of a configuration.
func login(a *process, ctx context.Context, c *config.Config, name string, r loginRequest) error {
	entry, ok := c.Server(name)
	if !ok {
		return failf(exitUsage, "there is no server %q in the configuration; weir ls --servers lists them", name)
	}
	server, ok := credentials.SignInServer(entry)
	switch {
	case entry.FromCaller():
		return failf(exitUsage, "the server %q has no sign-in: it takes the credential from the token that each caller shows weir", name)
	case !ok:
		return failf(exitUsage, "the server %q has no sign-in: weir starts it, or its Authorization header is configured", name)
	}
	principal, err := signsIn(c, entry, r.as)
	if err != nil {
		return err
	}
	store, err := credentialsOf(a, c)
	if err != nil {
		return err
	}
	if store == nil {
		return inMemory()
	}
	records, err := newCredentialLog(a, c, r.config, "weir login")
	if err == nil {
		err = records.ready(ctx)
	}
	if err != nil {
		return err
	}
	client := oauth.New(oauth.Options{Store: records.store(store, true), PublicURL: func() string { return c.PublicURL }})
	if why := client.Ended(ctx, server, principal); why != "" {
		a.note("%s needs a new sign-in: %s.", name, why)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginTime, errors.New("the sign-in was not finished within 10 minutes"))
	defer cancel()
	switch {
	case server.Flow.Alone():
		err = client.Machine(ctx, server, principal)
	case r.other || server.Flow == oauth.FlowDevice && !r.noBrowser:
		err = client.Device(ctx, server, principal, func(code oauth.Code) error { return showCode(a.stderr, code) })
	default:
		err = loginByBrowser(a, ctx, client, server, principal, r.noBrowser)
	}
	if err != nil {
		return err
	}
	if r.asJSON {
		return printJSON(a.stdout, map[string]any{"server": name, "signed_in": true})
	}
	_, err = fmt.Fprintf(a.stdout, "Signed in at %s. A running gateway uses it at once.\n", name)
	return err
}

// signsIn returns whose a sign-in at a server is. as is the principal that the command names, or "".
func signsIn(c *config.Config, server *config.Server, as string) (principal string, err error) {
	switch {
	case !server.PerPrincipal() && as != "":
		return "", failf(exitUsage, "all callers share the sign-in at %q, so --as has no effect; mcpServers.%s.credentials: user gives each of them one", server.Name, server.Name)
	case !server.PerPrincipal():
		return oauth.Shared, nil
	}
	return callerOf(c, as)
}

// callerOf returns the principal of a credential that belongs to one caller of a gateway. as is the one
// that the command names, or "".
func callerOf(c *config.Config, as string) (principal string, err error) {
	switch {
	case !c.Auth.Required() && as != "" && as != identity.Local:
		return "", failf(exitUsage, "the gateway of this configuration tells no callers apart; leave out --as")
	case !c.Auth.Required():
		return identity.Local, nil
	case as == "":
		return "", failf(exitUsage, "the gateway of this configuration tells callers apart: name the caller with --as PRINCIPAL, or let the caller open the page /connect/NAME of the gateway; weir whoami says the principal of a token")
	}
	return as, nil
}

// showCode prints the code that a person enters at another device.
func showCode(stderr terminal, code oauth.Code) error {
	at := code.URL
	if code.Complete != "" {
		at = code.Complete
	}
	_, err := fmt.Fprintf(stderr, "Open %s and enter the code %s within %s.\n", stderr.clean(at), stderr.clean(code.User), code.Life.Round(time.Minute))
	return err
}

// loginByBrowser signs in with a browser that comes back to this process.
func loginByBrowser(a *process, ctx context.Context, client *oauth.Client, server *oauth.Server, principal string, quiet bool) error {
	listener, err := listenForCallback(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	redirect := "http://" + listener.Addr().String() + callbackPath
	at, _, err := client.Begin(ctx, server, principal, redirect)
	if err != nil {
		return err
	}
	back := &callback{client: client, principal: principal, done: make(chan error, 1)}
	web := &http.Server{Handler: back, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if web.Shutdown(ending) != nil { // the page has this long to arrive
			_ = web.Close()
		}
		<-served
	}()
	if quiet || openBrowser(a.lookupEnv, at) != nil {
		fmt.Fprintf(a.stderr, "Open this address in a browser of this machine:\n\n  %s\n\n", at)
	} else {
		u, _ := url.Parse(at) // Begin made it
		a.note("Sign in at %s, in the browser that has opened. If none has: weir login %s --no-browser", u.Host, server.Name)
	}
	stop := a.spin("waiting for the browser")
	defer stop()
	select {
	case err := <-back.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listenForCallback listens where browsers come back to.
func listenForCallback(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	if l, err := lc.Listen(ctx, "tcp", callbackAddress); err == nil {
		return l, nil
	}
	return lc.Listen(ctx, "tcp", "127.0.0.1:0")
}

// callback answers the browser that comes back from an authorization server.
type callback struct {
	client    *oauth.Client
	principal string
	done      chan error // capacity 1: the outcome
}

// ServeHTTP implements http.Handler. A request that belongs to no sign-in, which any web page can
// send, changes nothing.
func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tail, back := strings.CutPrefix(r.URL.Path, callbackPath)
	if r.Method != http.MethodGet || !back || tail != "" && tail[0] != '/' {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	// The code can be used once, so a browser that goes away does not end the exchange.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), finishTime)
	defer cancel()
	server, err := b.client.Finish(ctx, b.principal, tail, r.URL.Query())
	switch {
	case err != nil && server == "":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "weir: "+err.Error()+"\n")
		return
	case err != nil:
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "weir is not signed in: "+err.Error()+"\n")
	default:
		_, _ = io.WriteString(w, "weir is signed in at "+server+". You can close this page.\n")
	}
	select {
	case b.done <- err:
	default: // an earlier request has decided
	}
}

// openBrowser opens an address in the person's browser: the program of $BROWSER, or the system's.
func openBrowser(lookupEnv func(string) (string, bool), at string) error {
	var cmd *exec.Cmd
	named, _ := lookupEnv("BROWSER")
	switch {
	case named != "":
		cmd = exec.Command(named, at)
	case runtime.GOOS == "darwin":
		cmd = exec.Command("open", at)
	case runtime.GOOS == "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", at)
	default:
		if display, _ := lookupEnv("DISPLAY"); display == "" {
			if wayland, _ := lookupEnv("WAYLAND_DISPLAY"); wayland == "" {
				return errors.New("there is no screen")
			}
		}
		cmd = exec.Command("xdg-open", at)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release() // the browser outlives this command
}

// joinNames writes names as people do.
func joinNames(names []string) string { return strings.Join(names, ", ") }

// hostOf returns the host of a listen address.
func hostOf(listen string) string {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return ""
	}
	return host
}
