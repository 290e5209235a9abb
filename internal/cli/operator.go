package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// operatorCommands are the commands that operate a running gateway.
func operatorCommands(a *process) []*cobra.Command {
	return []*cobra.Command{restartCommand(a), logsCommand(a), approveCommand(a), clusterCommand(a), eventsCommand(a)}
}

// operatorKey returns the key that a starting gateway takes from operators. A gateway on standard
// input and output has none: there is no path to show it at.
func operatorKey(lookupEnv func(string) (string, bool), ctx context.Context, stdio bool) (string, error) {
	if stdio {
		return "", nil
	}
	path, err := operatorKeyPath(lookupEnv)
	if err != nil {
		return "", err
	}
	return place.MakeKey(ctx, path)
}

func operatorKeyPath(lookupEnv func(string) (string, bool)) (string, error) {
	state, err := places(lookupEnv).State()
	return filepath.Join(state, place.OperatorKey), err
}

const operatorHelp = `
Which gateway is operated:
  --url URL       the one that runs there (or $WEIR_URL)
  --config FILE   the one that "weir serve" runs with this file
  neither         the one that "weir serve" runs with this folder's weir.yaml,
                  weir.yml, weir.json or .mcp.json, else with your own weir.yaml
                  (weir help files)

weir shows the key in operator.key of its state folder to gateways of this user.
Another gateway needs a token with operator: true, in $WEIR_TOKEN.`

// operatorFlags adds the flags of a target to a command that operates a gateway.
func (t *target) operatorFlags(cmd *cobra.Command) {
	t.serverFlags(cmd)
	cmd.Flags().StringVar(&t.config, "config", "", "operate the gateway that runs with this configuration")
	cmd.Long = strings.TrimSpace(cmd.Long) + "\n" + operatorHelp
}

// An operator asks the API of a running gateway.
type operator struct {
	base     string // URL of the gateway, without a path
	node     string // of a cluster, which answers; "" is the gateway at base
	bearer   string
	instance string // of the gateway that answered last
}

// findOperator returns an operator for the running gateway of a target. The key goes only to a
// gateway that has announced itself in the state folder of this user: other users could listen at
// any other address, and would then have the key.
func findOperator(a *process, ctx context.Context, t target) (*operator, error) {
	if t.url != "" && t.config != "" {
		return nil, failf(exitUsage, "--url and --config name two gateways: keep one of them")
	}
	named := t.token != ""
	if !named {
		t.token = a.env("WEIR_TOKEN")
	}
	if t.url == "" && t.config == "" {
		t.url = a.env("WEIR_URL")
	}
	if t.url != "" {
		base, err := siblingURL(t.url, "")
		if err != nil {
			return nil, err
		}
		o := &operator{base: strings.TrimSuffix(base, "/"), node: t.node, bearer: t.token}
		if f := announced(a.lookupEnv, ctx, o.base); f != nil && !named {
			o.useKey(a)
		}
		return o, nil
	}
	c, err := findConfig(a.lookupEnv, t.config)
	if err != nil {
		return nil, err
	}
	if f := readRunFile(a.lookupEnv, c.path); f != nil && f.runs(ctx) {
		o := &operator{base: strings.TrimSuffix(f.URL, "/mcp"), node: t.node, bearer: t.token}
		if !named {
			o.useKey(a)
		}
		return o, nil
	}
	if c.check() == nil { // a gateway of another user, or one whose file is missing
		if at, err := locateByAddress(a, ctx, c.path, t.token); at != "" && err == nil {
			return &operator{base: strings.TrimSuffix(at, "/mcp"), node: t.node, bearer: t.token}, nil
		}
	}
	return nil, failf(exitUnavailable, "no gateway runs with %s; start it with: weir serve --config %s", c.path, c.path)
}

// useKey takes the operator's key instead of a token, if there is a key.
func (o *operator) useKey(a *process) {
	path, err := operatorKeyPath(a.lookupEnv)
	if err != nil {
		return
	}
	key, err := place.ReadKey(path)
	switch {
	case err == nil:
		o.bearer = key
	case !errors.Is(err, os.ErrNotExist):
		a.note("the operator's key cannot be used: %v", err)
	}
}

// announced returns the run file of the gateway at a URL without a path, nil if none of this user's
// gateways has announced itself there.
func announced(lookupEnv func(string) (string, bool), ctx context.Context, base string) *runFile {
	state, err := places(lookupEnv).State()
	if err != nil {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(state, "gateways", "*.json")) // the pattern is sound
	for _, path := range paths {
		if f := parseRunFile(path); f != nil && strings.TrimSuffix(f.URL, "/mcp") == base && f.runs(ctx) {
			return f
		}
	}
	return nil
}

// serverPath returns the path of a server below api.Path.
func serverPath(name, what string) string { return "servers/" + url.PathEscape(name) + "/" + what }

// get reads a JSON answer.
func (o *operator) get(ctx context.Context, path string, into any) error {
	return o.ask(ctx, http.MethodGet, path, nil, into)
}

// post sends a change and reads the JSON answer.
func (o *operator) post(ctx context.Context, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return o.ask(ctx, http.MethodPost, path, raw, into)
}

func (o *operator) ask(ctx context.Context, method, path string, body []byte, into any) error {
	resp, err := o.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return failf(exitUnavailable, "the answer of the gateway at %s: %w", withoutPassword(o.base), err)
	}
	return nil
}

// open sends a request. The caller closes the body of the response, whose status is 200.
func (o *operator) open(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	resp, err := request{
		method: method, url: o.base + api.Path + atNode(path, o.node), token: o.bearer, body: body,
		header: http.Header{"Content-Type": {"application/json"}}, peer: "the gateway at " + withoutPassword(o.base),
	}.send(ctx)
	if err != nil {
		return nil, err
	}
	o.instance = resp.Header.Get(web.InstanceHeader)
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, o.refused(resp)
}

// refused returns the error of a response.
func (o *operator) refused(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	message := messageOf(data)
	if message == "" {
		return failf(exitUnavailable, "%s answered %s: it is no weir gateway, or an older one; restart it with this version", withoutPassword(o.base), resp.Status)
	}
	return failf(exitCodeOf(resp.StatusCode), "%s", message)
}

// messageOf returns the message of an answer that is an error, "" for others.
func messageOf(data []byte) string {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &answer) // else it has no message
	return answer.Error.Message
}

// exitCodeOf returns the exit code for the status of an error.
func exitCodeOf(status int) int {
	switch {
	case status == http.StatusBadRequest:
		return exitUsage
	case status >= http.StatusInternalServerError:
		return exitUnavailable
	}
	return exitRefused
}

// completeRunning completes the names of a configuration's servers from the file, and starts nothing.
func (a *process) completeRunning(t *target, most int) cobra.CompletionFunc {
	return a.completeConfigured(&t.config, most)
}

// completeConfigured completes the names of servers of the configuration that the file or the folder
// names, for at most so many arguments; 0 means any number.
func (a *process) completeConfigured(file *string, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		path := *file
		if path == "" {
			c, err := findConfig(a.lookupEnv, "")
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			path = c.path
		}
		return a.completeServers(&path)(cmd, args, word)
	}
}
