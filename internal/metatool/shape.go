package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/table"
)

// shaping turns an upstream's answer into text for an agent.
type shaping struct {
	firewall  result.Firewall
	store     tables.Store
	links     *links
	detect    func(upstream string) table.DetectOptions // nil adds no options
	flow      *flow.Flow
	holdsBack bool
	// keepsReads says that every part of a resource or prompt is kept; see Options.Strict.
	keepsReads bool
}

// askedTokens is how many tokens of the columns that an agent asked for by abstract_domains it gets
// before they are held back.
const askedTokens = 8000

// tools shapes the results of tools.
func (s *shaping) tools() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseShape, Name: "shape", After: func(ctx context.Context, c *dispatch.Call, err error) error {
		switch {
		case err != nil || c.Task != "":
			return err
		case c.DryRun && c.Format == result.FormatJSON:
			c.Reply = result.Texts(c.Reply, string(c.Reply))
			return nil
		case c.DryRun:
			c.Reply = result.Texts(nil, string(c.Reply))
			return nil
		}
		s.links.remember(c.Request.Session.Principal(), placeOf(c), c.Reply)
		firewall := s.firewall
		if s.detect != nil {
			firewall.Tables = s.detect(c.Entry.Upstream)
		}
		if len(c.Split.Asked) > 0 {
			firewall.PassTokens = askedTokens
		}
		if !s.holdsBack {
			firewall.ThresholdChars = math.MaxInt32 // without tool_view, the rest could not be read
		}
		if c.Format == result.FormatRaw || !s.holdsBack && c.Format != result.FormatJSON {
			c.IsError = string(rawjson.Get(c.Reply, "isError")) == "true"
			return nil
		}
		if c.Reply, err = s.shape(ctx, firewall, c, c.Reply); err != nil {
			return &result.Error{Code: result.UpstreamError, Cause: err,
				Message: fmt.Sprintf("server %q answered %s with something that is no tool result", c.Entry.Upstream, c.Entry.ID)}
		}
		return nil
	}}
}

// reads shapes the results of resources or prompts. convert turns them into tool results.
func (s *shaping) reads(convert func(io.Writer, json.RawMessage) error) dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseShape, Name: "shape", After: func(ctx context.Context, c *dispatch.Call, err error) error {
		if err != nil {
			return notThere(c, err)
		}
		if kind := rawjson.Text(rawjson.Get(c.Reply, "resultType")); kind != "" && kind != "complete" {
			c.Answer = c.Reply
			return nil // requests to the agent; see bridge
		}
		s.links.remember(c.Request.Session.Principal(), placeOf(c), c.Reply)
		answer, err := memory.Make(ctx, c.Reply, func(w io.Writer) error { return convert(w, c.Reply) })
		if full := mcp.NoRoom("the answer of "+c.Entry.ID, err); full != err {
			return dispatch.Classify(ctx, c.Entry.Upstream, full)
		}
		if err == nil {
			c.Answer = answer
			firewall := s.firewall
			firewall.KeepAll = s.keepsReads
			c.Reply, err = s.shape(ctx, firewall, c, answer)
			c.IsError = false // reads have no isError
		}
		if err != nil {
			return &result.Error{Code: result.UpstreamError, Cause: err,
				Message: fmt.Sprintf("server %q answered %s of %s with something that is no result of it", c.Entry.Upstream, c.Method, c.Entry.ID)}
		}
		return nil
	}}
}

// shape passes a result through the firewall.
func (s *shaping) shape(ctx context.Context, firewall result.Firewall, c *dispatch.Call, raw json.RawMessage) (json.RawMessage, error) {
	principal := c.Request.Session.Principal()
	scope := memory.FromContext(ctx)
	firewall.Make, firewall.Tables.Grow = makerOf(ctx), memory.Taker(ctx)
	if s.holdsBack && s.flow.Bare(c.Label) {
		firewall.Bare, firewall.Names = true, schemaNames(c.Entry)
	}
	answer, about, err := firewall.Shape(raw, &c.Provenance, c.Format, func(mediaType, label string, data []byte, digest *artifact.Digest) (artifact.Artifact, error) {
		if digest != nil {
			// A small part would keep the memory of the whole result.
			digest.Lasts = len(data) >= len(raw)/4*3 && !scope.Ends(data)
		}
		return s.store.At(identity.RouteOf(ctx).Profile).Marked(c.Label.Mark()).PutDigested(ctx, principal, mediaType, label, data, digest)
	})
	if err != nil {
		return nil, err
	}
	c.Passed, c.IsError, c.Unread = about.Tokens, about.IsError, about.Bare
	return answer, nil
}

// schemaNames returns the names that the outputSchema of a tool gives, nil if an operator has not agreed to it. The
// entry may be nil.
func schemaNames(e *catalog.Entry) (names []string) {
	if e == nil || e.Changed() {
		return nil
	}
	_ = rawjson.EachMember(rawjson.Get(e.OutputSchema, "properties"), func(m rawjson.Member) bool {
		names = append(names, text.Line(visible.Text(string(m.Key)), 60))
		return len(names) < 40
	})
	return names
}

// makerOf returns what makes large texts for the call of ctx.
func makerOf(ctx context.Context) result.Maker {
	return func(from []byte, write func(io.Writer) error) ([]byte, error) { return memory.Make(ctx, from, write) }
}
