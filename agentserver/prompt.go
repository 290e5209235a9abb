package agentserver

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Prompt is one prompt of an agent: messages with placeholders ${name} or {{name}}, or a command
// that prints them.
type Prompt struct {
	Name, Title, Description string
	Arguments                []PromptArgument
	Messages                 []PromptMessage
	// Timeout bounds a command; Options.Timeout where zero.
	Timeout time.Duration

	run    runner
	source string
}

// PromptArgument is one argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// PromptMessage is one message. Content is an MCP content block.
type PromptMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

var placeholder = regexp.MustCompile(`\$\{([A-Za-z0-9_.-]+)\}|\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}`)

// fill replaces placeholders. Those without a value stay where they are.
func fill(text string, values func(name string) (string, bool)) string {
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		m := placeholder.FindStringSubmatch(match)
		if value, ok := values(m[1] + m[2]); ok {
			return value
		}
		return match
	})
}

// inferArguments finds the arguments of a prompt that declares none.
func (p *Prompt) inferArguments() {
	for _, m := range p.Messages {
		for _, match := range placeholder.FindAllStringSubmatch(string(m.Content), -1) {
			name := match[1] + match[2]
			if !slices.ContainsFunc(p.Arguments, func(a PromptArgument) bool { return a.Name == name }) {
				p.Arguments = append(p.Arguments, PromptArgument{Name: name})
			}
		}
	}
}

// textContent returns a content block; a text becomes one.
func textContent(raw json.RawMessage) json.RawMessage {
	if len(raw) > 0 && raw[0] == '"' {
		return rawjson.NewWriter(nil).Object().Key("type").String("text").Key("text").Raw(raw).EndObject().Bytes()
	}
	return raw
}

// getPrompt serves prompts/get.
func (s *Server) getPrompt(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	name := rawjson.Text(r.Fields().Name)
	p, ok := s.offer.Load().prompts[name]
	if !ok {
		e := mcp.Errorf(mcp.KindInvalidParams, "no such prompt: %s", clip(name))
		e.Data, _ = json.Marshal(map[string]string{"kind": e.Kind.String(), "prompt": clip(name)})
		return nil, e
	}
	args := map[string]string{}
	if raw := r.Fields().Arguments; raw != nil && string(raw) != "null" {
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "prompt %q: arguments must be an object of texts", name)
		}
	}
	var missing []string
	for _, a := range p.Arguments {
		if _, ok := args[a.Name]; a.Required && !ok {
			missing = append(missing, a.Name)
		}
	}
	if missing != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "prompt %q needs the arguments %s", name, strings.Join(missing, ", "))
	}
	w := rawjson.NewWriter(nil).Object()
	if p.Description != "" {
		w.Key("description").String(p.Description)
	}
	w.Key("messages")
	if p.run == nil {
		messages, err := p.fill(args)
		if err != nil {
			return nil, err
		}
		return w.Raw(messages).EndObject().Bytes(), nil
	}
	input, err := json.Marshal(map[string]any{"prompt": name, "arguments": args, "metadata": s.metadata(r)})
	if err != nil {
		return nil, err
	}
	made, err := s.read(ctx, r, p.run, "prompt "+name, p.Timeout, input)
	if err != nil {
		return nil, err
	}
	if messages := rawjson.Get(made.json, "messages"); rawjson.IsArray(messages) {
		return w.Raw(messages).EndObject().Bytes(), nil
	}
	w.Array().Object().Key("role").String("user").Key("content").Object()
	w.Key("type").String("text").Key("text").String(strings.ToValidUTF8(string(made.text), "\uFFFD"))
	return w.EndObject().EndObject().EndArray().EndObject().Bytes(), nil
}

// fill returns the messages with the arguments in their places. Arguments that are declared and not
// given become empty.
func (p *Prompt) fill(args map[string]string) (json.RawMessage, error) {
	values := func(name string) (string, bool) {
		if v, ok := args[name]; ok {
			return v, true
		}
		return "", slices.ContainsFunc(p.Arguments, func(a PromptArgument) bool { return a.Name == name })
	}
	messages := make([]PromptMessage, len(p.Messages))
	for i, m := range p.Messages {
		content := m.Content
		if text := rawjson.Get(content, "text"); text != nil {
			filled, err := rawjson.Set(content, "text", rawjson.Quote(fill(rawjson.Text(text), values)))
			if err != nil {
				return nil, err
			}
			content = filled
		}
		messages[i] = PromptMessage{m.Role, content}
	}
	return marshal(messages)
}
