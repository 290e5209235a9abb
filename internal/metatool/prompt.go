package metatool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
)

var promptKeys = []string{"prompt_id", "args"}

// prompt parses a call of prompt_get (spec/gateway §6.4) and finds its prompt. The answer is the
// rendered prompt, after its description.
func (f *finder) prompt(ctx context.Context, c *dispatch.Call) error {
	var out [2][]byte
	if err := readArguments(c, promptKeys, out[:]); err != nil {
		return err
	}
	c.Catalog, c.Method = f.upstreams.Snapshot().Catalog, dispatch.MethodGet
	e, err := lookupPrimitive(c, c.Catalog, out[0])
	if err != nil {
		return err
	}
	if c.Args = out[1]; c.Args == nil {
		c.Args = json.RawMessage("{}")
	}
	c.Provenance = result.Provenance{Protocol: "mcp", PromptID: e.ID, Primitive: "prompt"}
	if err = e.Validate(c.Args); err == nil {
		err = knownArgs(e, c.Args)
	}
	if err != nil {
		return dispatch.ArgsError(ctx, c, err, f.store)
	}
	return nil
}

// knownArgs refuses arguments that the prompt does not declare: servers ignore a misspelt argument
// without an error.
func knownArgs(e *catalog.Entry, args json.RawMessage) error {
	known := map[string]bool{}
	for _, p := range e.Params() {
		known[p.Name] = true
	}
	var unknown *catalog.Error
	err := rawjson.EachMember(args, func(m rawjson.Member) bool {
		name := string(m.Key)
		if known[name] {
			return true
		}
		message := fmt.Sprintf("%q is no argument of this prompt", text.Fit(name, 60))
		unknown = &catalog.Error{Code: catalog.ArgsInvalid, ID: e.ID, Message: fmt.Sprintf("arguments of %s are invalid: %s", e.ID, message),
			Problems: []catalog.Problem{{Keyword: "additionalProperties", Message: message}}}
		return false
	})
	if err != nil {
		return &catalog.Error{Code: catalog.ArgsInvalid, ID: e.ID, Message: fmt.Sprintf("arguments of %s are invalid: %v", e.ID, err)}
	}
	if unknown != nil {
		return unknown
	}
	return nil
}

// promptResult converts the result of prompts/get into a tool result: the description, then each
// message after its role. Content other than text becomes a block of its own.
func promptResult(raw json.RawMessage) (json.RawMessage, error) {
	var fields [2][]byte
	if err := rawjson.Fields(raw, []string{"description", "messages"}, fields[:]); err != nil {
		return nil, err
	}
	room := contentRoom(raw)
	out := room[len(room):]
	if description := rawjson.Text(fields[0]); description != "" {
		out = result.AppendText(out, description)
	}
	var bad error
	if fields[1] != nil {
		err := rawjson.EachElement(fields[1], func(v []byte) bool {
			var message [2][]byte
			if bad = rawjson.Fields(v, []string{"role", "content"}, message[:]); bad != nil {
				return false
			}
			role := rawjson.Text(message[0])
			if role == "" {
				role = "user"
			}
			blocks := [][]byte{message[1]}
			if rawjson.IsArray(message[1]) {
				blocks = nil
				bad = rawjson.EachElement(message[1], func(b []byte) bool {
					blocks = append(blocks, b)
					return true
				})
			}
			for _, b := range blocks {
				var fields [3][]byte
				if bad = rawjson.Fields(b, []string{"type", "text", "annotations"}, fields[:]); bad != nil {
					return false
				}
				if result.KindOf(fields[0]) != "text" {
					out = result.AppendBlock(result.AppendText(out, "["+role+"]"), b)
					continue
				}
				if len(out) > 0 {
					out = append(out, ',')
				}
				// The text itself is a string of JSON already.
				out = append(out, `{"type":"text","text":`...)
				out = rawjson.AppendString(out, "["+role+"] ")
				if len(fields[1]) > 0 && fields[1][0] == '"' {
					out = append(out[:len(out)-1], fields[1][1:]...)
				}
				if fields[2] != nil {
					out = append(append(out, `,"annotations":`...), fields[2]...)
				}
				out = append(out, '}')
			}
			return bad == nil
		})
		if bad == nil {
			bad = err
		}
	}
	if bad != nil {
		return nil, bad
	}
	return withMeta(raw, room, out), nil
}
