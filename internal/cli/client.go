package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// A client asks a gateway as an agent would. target.go opens clients.
type client struct {
	peer  mcp.Peer
	where string // name of the gateway in messages
	own   bool   // the gateway runs in this process and stops with it
	// health returns the state of the gateway and its upstreams.
	health func(context.Context) (*gateway.Health, error)
	// catalog returns the state of the gateway's catalog.
	// catalog describes the catalog; with a time, it has the changes since then.
	catalog func(ctx context.Context, since time.Time) (*gateway.CatalogInfo, error)
	// definitions compare the definitions of servers with weir.lock; nil for a gateway of another process.
	definitions definitionSource
	// tools returns the tools of the gateway's catalog that fit a query.
	tools toolFinder
	// person answers the questions of a call; nil refuses them.
	person *person
	close  func()
}

// A contentBlock is one block of a result.
type contentBlock struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	MimeType string          `json:"mimeType"`
	Data     string          `json:"data"`
	URI      string          `json:"uri"`
	Name     string          `json:"name"`
	Resource json.RawMessage `json:"resource"`
}

// A toolResult is the result of a tool call.
type toolResult struct {
	Content    []contentBlock             `json:"content"`
	Structured json.RawMessage            `json:"structuredContent"`
	IsError    bool                       `json:"isError"`
	Meta       map[string]json.RawMessage `json:"_meta"`

	raw json.RawMessage
}

// A gatewayError is an error of the gateway itself (spec/gateway §3.4).
type gatewayError struct {
	Code      result.Code     `json:"error"`
	Message   string          `json:"message"`
	Path      *string         `json:"path"`
	Retryable bool            `json:"retryable"`
	Details   json.RawMessage `json:"details,omitempty"`

	raw json.RawMessage
}

func (e *gatewayError) Error() string {
	text := fmt.Sprintf("%s (%s)", e.Message, e.Code)
	if e.Retryable {
		text += "; trying again may help"
	}
	return text
}

func (e *gatewayError) exitCode() int {
	switch e.Code {
	case result.UpstreamUnavailable, result.UpstreamTimeout:
		return exitUnavailable
	case result.ArgsInvalid, result.PathInvalid:
		return exitUsage
	case result.UpstreamError:
		return exitTool
	}
	return exitRefused
}

// gatewayErrorOf returns the gateway's own error in a result, or nil. A tool's own result has an
// envelope, or no code of the gateway.
func gatewayErrorOf(r *toolResult) *gatewayError {
	if !r.IsError || len(r.Content) != 1 || r.Meta[result.MetaEnvelope] != nil {
		return nil
	}
	e := &gatewayError{raw: json.RawMessage(r.Content[0].Text)}
	if json.Unmarshal(e.raw, e) != nil || e.Message == "" {
		return nil
	}
	if !slices.ContainsFunc(result.Codes(), func(c result.CodeInfo) bool { return c.Code == e.Code }) {
		return nil
	}
	return e
}

// A progress is the content of a notifications/progress.
type progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}

// ask calls a meta-tool. If tell is set, it gets the progress notifications of the call, one at a
// time. The error is a *gatewayError if the gateway refused the call. A failure of the tool itself
// is a result, not an error.
func (c *client) ask(ctx context.Context, tool string, args any, format string, tell func(progress)) (*toolResult, error) {
	arguments, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", tool, err)
	}
	meta := map[string]any{result.MetaFormat: format}
	if tell != nil {
		meta["progressToken"] = 1
	}
	params, err := json.Marshal(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      map[string]any  `json:"_meta"`
	}{tool, arguments, meta})
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", tool, err)
	}
	raw, err := c.call(ctx, params, tell)
	if err != nil {
		return nil, c.explain(err, tool)
	}
	r := &toolResult{raw: raw}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("%s answered %s with something that is no tool result: %w", c.where, tool, err)
	}
	if format == "raw" && r.Meta[result.MetaError] == nil {
		return r, nil // an error of the tool itself
	}
	if e := gatewayErrorOf(r); e != nil {
		return nil, e
	}
	return r, nil
}

// call makes a tools/call, which may ask the person.
func (c *client) call(ctx context.Context, params json.RawMessage, tell func(progress)) (json.RawMessage, error) {
	switch {
	case c.person != nil:
		c.person.tell = tell
		return bridge.Call(ctx, c.peer, "tools/call", params, c.person.back(c.where))
	case tell == nil:
		return c.peer.Call(ctx, "tools/call", params, nil)
	}
	return c.peer.Call(ctx, "tools/call", params, mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		var p progress
		if r.Method == "notifications/progress" && json.Unmarshal(r.Params, &p) == nil {
			tell(p)
		}
		if r.IsNotification() {
			return nil, nil
		}
		return nil, mcp.MethodNotFound(r.Method)
	}))
}

// explain rewrites a protocol error for a person at a shell.
func (c *client) explain(err error, tool string) error {
	var answered *jsonrpc.Error
	if !errors.As(err, &answered) {
		return err
	}
	if answered.Code == jsonrpc.CodeInvalidParams && strings.Contains(answered.Message, "unknown tool") {
		return failf(exitRefused, "%s has no %s: it is no weir gateway, or one in proxy mode (mode: gateway offers it)", c.where, tool)
	}
	return failf(exitRefused, "%s: %s (code %d)", c.where, answered.Message, answered.Code)
}

// A card is one line of a tool_browse result.
type card struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Kind        string   `json:"kind"`
	Namespace   string   `json:"namespace"`
	CostHint    float64  `json:"cost_hint"`
	Signature   string   `json:"signature"`
	SideEffects bool     `json:"side_effects"`
	Undeclared  bool     `json:"undeclared"`
}

// render returns the card in the form that agents read.
func (c card) render() string {
	full := catalog.Card{ID: c.ID, Name: c.Name, Description: c.Description, Tags: c.Tags, Kind: primitive.Kind(c.Kind), Namespace: c.Namespace, CostHint: c.CostHint,
		Signature: c.Signature, SideEffects: c.SideEffects, Undeclared: c.Undeclared}
	return full.Render()
}

// browseArgs are the arguments of tool_browse.
type browseArgs struct {
	Query string `json:"query,omitempty"`
	Path  string `json:"path,omitempty"`
	TopK  int    `json:"top_k,omitempty"`
}

// browsed is the result of tool_browse.
type browsed struct {
	cards []card
	raw   json.RawMessage // the cards as received
	// missed names the servers that were not searched, with the reasons; "" for none.
	missed string
	hint   string // why no tool matches a query well
}

// browse calls tool_browse.
func (c *client) browse(ctx context.Context, args browseArgs) (*browsed, error) {
	r, err := c.ask(ctx, metatool.ToolBrowse, args, "json", nil)
	if err != nil {
		return nil, err
	}
	var found struct {
		Cards       json.RawMessage
		NotSearched string `json:"not_searched"`
		Hint        string
	}
	if err := json.Unmarshal(r.Structured, &found); err != nil || found.Cards == nil {
		return nil, fmt.Errorf("%s answered %s without cards: is it a weir gateway?", c.where, metatool.ToolBrowse)
	}
	b := &browsed{raw: found.Cards, missed: found.NotSearched, hint: found.Hint}
	if err := json.Unmarshal(found.Cards, &b.cards); err != nil {
		return nil, fmt.Errorf("cards of %s: %w", c.where, err)
	}
	return b, nil
}

// maxPaths bounds the traversal of the tool tree.
const maxPaths = 20_000

// allCards walks the tool tree from the root and returns its leaves. Clusters and namespaces are
// internal nodes; their id is their path.
func (c *client) allCards(ctx context.Context) (*browsed, error) {
	all := &browsed{}
	asked := 0
	for paths := []string{"/"}; len(paths) > 0; asked++ {
		if asked == maxPaths {
			return nil, failf(exitRefused, "%s has more than %d paths: list a part of it with weir browse", c.where, maxPaths)
		}
		path := paths[0]
		paths = paths[1:]
		below, err := c.browse(ctx, browseArgs{Path: path})
		if err != nil {
			return nil, err
		}
		if path == "/" {
			all.missed = below.missed
		}
		for _, found := range below.cards {
			switch {
			case found.Kind != string(primitive.KindInternal):
				all.cards = append(all.cards, found)
			case len(found.ID) > len(path):
				paths = append(paths, found.ID)
			}
		}
	}
	slices.SortFunc(all.cards, func(a, b card) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// printCards prints cards: as a table on a screen, otherwise in the form that agents read.
func printCards(stdout terminal, cards []card) error {
	if !stdout.screen() {
		for _, c := range cards {
			if _, err := fmt.Fprintln(stdout, c.render()); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]cell, len(cards))
	for i, c := range cards {
		text := c.Description
		if len(c.Tags) > 0 {
			text += " [" + strings.Join(c.Tags, ", ") + "]"
		}
		rows[i] = []cell{{cyan, c.ID}, {"", text}}
	}
	return printTable(stdout, []column{{"ID", between}, {"DESCRIPTION", ending}}, rows)
}
