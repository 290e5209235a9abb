package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

// Trial is what the servers of a configuration answered when they were started once.
type Trial struct {
	Servers []UpstreamHealth

	// Before counts the tokens of all definitions of tools, After of the tools that weir lists.
	Before, After int
}

// Try starts the servers of a configuration side by side, lists them, and stops them. When ctx ends,
// the servers that have not answered yet are in state starting. Only a configuration that cannot
// run at all is an error.
func Try(ctx context.Context, c *config.Config, o Options) (*Trial, error) {
	o.Shell = true
	g, err := New(ctx, c, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), part.CloseTimeout)
		defer cancel()
		g.Close(closing)
	}()
	_ = g.Settled(ctx) // The health of each server has the reason.
	t := &Trial{Servers: g.Health().List()}
	for _, entry := range g.Views.Of(context.WithoutCancel(ctx)).Catalog.Entries() {
		if entry.Kind == primitive.KindTool {
			t.Before += token.CountBytes(entry.Raw)
		}
	}
	listing, cancel := context.WithTimeout(context.WithoutCancel(ctx), part.CloseTimeout)
	defer cancel()
	t.After, err = listed(listing, g, c)
	return t, err
}

// listed counts the tokens of the tools that an agent is shown.
func listed(ctx context.Context, g *Gateway, c *config.Config) (tokens int, err error) {
	front := NewFront(g)
	front.Apply(c)
	here, there := mcp.Pipe()
	server := mcp.NewConn(there, mcp.ConnOptions{Name: "a trial", Handler: front, Logger: g.opts.Logger, Session: mcp.NewSession("", guard.Principal(ctx))})
	defer server.Close()
	conn := mcp.NewConn(here, mcp.ConnOptions{Name: "the gateway on trial", Client: true, Logger: g.opts.Logger})
	defer conn.Close()
	if _, err := mcp.Handshake(ctx, conn, part.Identity(g.Run.Version), json.RawMessage("{}"), ""); err != nil {
		return 0, err
	}
	for cursor := ""; ; {
		params := json.RawMessage("{}")
		if cursor != "" {
			if params, err = json.Marshal(map[string]string{"cursor": cursor}); err != nil {
				return 0, err
			}
		}
		result, err := conn.Call(ctx, "tools/list", params, nil)
		if err != nil {
			return 0, err
		}
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return 0, fmt.Errorf("reading weir's own list of tools: %w", err)
		}
		for _, tool := range page.Tools {
			tokens += token.CountBytes(tool)
		}
		if cursor = page.NextCursor; cursor == "" {
			return tokens, nil
		}
	}
}
