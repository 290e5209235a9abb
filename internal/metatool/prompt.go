package metatool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

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
func promptResult(w io.Writer, raw json.RawMessage) error {
	var fields [2][]byte
	if err := rawjson.Fields(raw, []string{"description", "messages"}, fields[:]); err != nil {
		return err
	}
	out := newBlocks(w)
	if description := rawjson.Text(fields[0]); description != "" {
		out.add(result.AppendText(nil, description))
	}
	if fields[1] == nil {
		return out.end(raw)
	}
	var bad error
	err := rawjson.EachElement(fields[1], func(v []byte) bool {
		bad = promptMessage(out, v)
		return bad == nil
	})
	return cmp.Or(bad, err, out.end(raw))
}

// promptMessage writes the blocks of one message of a prompt.
func promptMessage(out *blocks, raw []byte) error {
	var message [2][]byte
	if err := rawjson.Fields(raw, []string{"role", "content"}, message[:]); err != nil {
		return err
	}
	role := cmp.Or(rawjson.Text(message[0]), "user")
	content := [][]byte{message[1]}
	if rawjson.IsArray(message[1]) {
		content = nil
		err := rawjson.EachElement(message[1], func(b []byte) bool {
			content = append(content, b)
			return true
		})
		if err != nil {
			return err
		}
	}
	for _, b := range content {
		var fields [3][]byte
		if err := rawjson.Fields(b, []string{"type", "text", "annotations"}, fields[:]); err != nil {
			return err
		}
		if result.KindOf(fields[0]) != "text" {
			out.add(result.AppendText(nil, "["+role+"]"))
			out.add(b)
			continue
		}
		// The text itself is a string of JSON already.
		begin, text, annotations := rawjson.Quote("["+role+"] "), []byte(nil), ""
		if len(fields[1]) > 0 && fields[1][0] == '"' {
			begin, text = begin[:len(begin)-1], fields[1][1:]
		}
		if fields[2] != nil {
			annotations = `,"annotations":`
		}
		out.add(`{"type":"text","text":`, begin, text, annotations, fields[2], "}")
	}
	return nil
}
