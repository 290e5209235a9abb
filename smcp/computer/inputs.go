package computer

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/smcp"
)

// Types of inputs.
const (
	InputPrompt  = "promptString"
	InputPick    = "pickString"
	InputCommand = "command"
)

// envPrefix is the prefix of environment variables that answer inputs: A2C_SMCP_<id>.
const envPrefix = "A2C_SMCP_"

// Input defines a value that is kept out of the configuration.
type Input struct {
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default,omitempty"`
	Password    bool            `json:"password,omitempty"`
	Options     []Option        `json:"options,omitempty"`
	Command     string          `json:"command,omitempty"`
	Args        json.RawMessage `json:"args,omitempty"` // a list or a mapping of strings
}

// Option is a choice of a pickString: a string, or a label and a value.
type Option struct {
	Label, Value string
}

// UnmarshalJSON reads both forms.
func (o *Option) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &o.Value); err == nil {
		o.Label = o.Value
		return nil
	}
	var both struct{ Label, Value string }
	if err := json.Unmarshal(raw, &both); err != nil {
		return fmt.Errorf("an option is a text, or a label and a value")
	}
	o.Label, o.Value = both.Label, both.Value
	return nil
}

// MarshalJSON writes a string if label and value are equal.
func (o Option) MarshalJSON() ([]byte, error) {
	if o.Label == o.Value {
		return json.Marshal(o.Value)
	}
	return json.Marshal(map[string]string{"label": o.Label, "value": o.Value})
}

// placeholder matches a reference in a string.
var placeholder = regexp.MustCompile(`\$\{(input:([^}]+)|env:([A-Za-z_][A-Za-z0-9_]*)|([A-Za-z_][A-Za-z0-9_]*))\}`)

// inputs resolves placeholders and keeps the values of inputs.
type inputs struct {
	o *Options

	mu      sync.Mutex // guards below
	defs    []Input
	values  map[string]any
	secrets secrets
}

func newInputs(o *Options) *inputs { return &inputs{o: o, values: map[string]any{}} }

// define replaces the definitions. It keeps the values of remaining inputs, except values that are no
// longer a choice.
func (in *inputs) define(defs []Input) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.defs = slices.Clone(defs)
	for id, v := range in.values {
		if !slices.ContainsFunc(defs, func(d Input) bool { return d.ID == id && d.allows(asText(v)) == nil }) {
			delete(in.values, id)
		}
	}
}

// allows checks a value against the options of a pickString.
func (in Input) allows(text string) error {
	if in.Type != InputPick || slices.ContainsFunc(in.Options, func(o Option) bool { return o.Value == text }) {
		return nil
	}
	values := make([]string, len(in.Options))
	for i, o := range in.Options {
		values[i] = strconv.Quote(o.Value)
	}
	return fmt.Errorf("input %q: %q is none of its options: %s", in.ID, text, strings.Join(values, ", "))
}

func (in *inputs) list() []Input {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.defs)
}

func (in *inputs) find(id string) (Input, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := slices.IndexFunc(in.defs, func(d Input) bool { return d.ID == id })
	if i < 0 {
		return Input{}, false
	}
	return in.defs[i], true
}

// set sets the value of an input, any JSON; nil deletes it.
func (in *inputs) set(id string, raw json.RawMessage) error {
	def, ok := in.find(id)
	if !ok {
		return fmt.Errorf("there is no input %q", id)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if raw == nil {
		delete(in.values, id)
		return nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("the value of input %q is no JSON: %w", id, err)
	}
	if def.Type == InputPick {
		v = asText(v) // as the options are
		if err := def.allows(asText(v)); err != nil {
			return err
		}
	}
	in.values[id] = v
	in.hide(v, def.Password)
	return nil
}

// hide keeps a value out of logs. The caller holds mu.
func (in *inputs) hide(v any, certain bool) {
	if text, ok := v.(string); ok {
		in.secrets.add(text, certain)
	}
}

// redact removes the values of inputs and the secrets of servers from a text.
func (in *inputs) redact(text string) string {
	in.mu.Lock()
	hidden := in.secrets.all()
	in.mu.Unlock()
	return hidden.Replace(text)
}

// concealed returns a listing whose descriptions contain no secrets.
func (in *inputs) concealed(l primitive.Listing) primitive.Listing {
	in.mu.Lock()
	hidden := in.secrets.credentials()
	in.mu.Unlock()
	if hidden == nil {
		return l
	}
	return l.Concealed(hidden.Replace)
}

// variable returns the environment variable that answers an input. ok is false if it is not set.
func (in *inputs) variable(id string) (name, value string, ok bool) {
	name = envPrefix + id
	value, ok = in.o.LookupEnv(name)
	return name, value, ok
}

// value returns the value of an input. The order is: the environment, a value that was set or
// obtained before, the answer of a person or a command, the default. ok is false if the input is
// undefined or has no value.
func (in *inputs) value(ctx context.Context, id string) (v any, ok bool, err error) {
	def, known := in.find(id)
	in.mu.Lock()
	v, ok = in.values[id]
	in.mu.Unlock()
	if name, text, set := in.variable(id); set {
		in.mu.Lock()
		in.hide(text, def.Password)
		in.mu.Unlock()
		if err := def.allows(text); err != nil {
			return nil, false, fmt.Errorf("variable %s: %w", name, err)
		}
		return text, true, nil
	}
	if ok || !known {
		return v, ok, nil
	}
	v, ok, err = in.obtain(ctx, def)
	if err != nil || !ok {
		return nil, false, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.values[id] = v
	if def.Password || def.Type == InputCommand {
		in.hide(v, def.Password)
	}
	return v, true, nil
}

func (in *inputs) obtain(ctx context.Context, def Input) (any, bool, error) {
	if def.Type == InputCommand {
		if in.o.RunCommand == nil {
			return nil, false, nil
		}
		out, err := in.o.RunCommand(ctx, def)
		if err != nil {
			return nil, false, fmt.Errorf("input %q: its command: %w", def.ID, err)
		}
		return strings.TrimRight(out, "\r\n"), true, nil
	}
	if in.o.Ask != nil {
		text, ok, err := in.o.Ask(ctx, def)
		if err != nil {
			return nil, false, fmt.Errorf("input %q: %w", def.ID, err)
		}
		if ok {
			return text, true, def.allows(text)
		}
	}
	if len(def.Default) > 0 && string(def.Default) != "null" {
		var v any
		if err := json.Unmarshal(def.Default, &v); err != nil {
			return nil, false, err
		}
		return v, true, nil
	}
	return nil, false, nil
}

// text replaces the placeholders of a string. A placeholder that is the whole string keeps the type
// of its value. Unknown placeholders stay as they are.
func (in *inputs) text(ctx context.Context, text string) (any, error) {
	if m := placeholder.FindStringSubmatchIndex(text); m != nil && m[0] == 0 && m[1] == len(text) {
		v, ok, err := in.reference(ctx, placeholder.FindStringSubmatch(text))
		if err != nil || ok {
			return v, err
		}
		return text, nil
	}
	var failed error
	out := placeholder.ReplaceAllStringFunc(text, func(ref string) string {
		v, ok, err := in.reference(ctx, placeholder.FindStringSubmatch(ref))
		if err != nil && failed == nil {
			failed = err
		}
		if !ok {
			return ref
		}
		return asText(v)
	})
	return out, failed
}

func (in *inputs) reference(ctx context.Context, m []string) (any, bool, error) {
	if m[2] != "" {
		return in.value(ctx, m[2])
	}
	v, ok := in.o.LookupEnv(m[3] + m[4])
	if ok {
		in.hideAll([]string{v}, false)
	}
	return v, ok, nil
}

func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// rendering replaces the placeholders in a server's strings and keeps the first error.
type rendering struct {
	ctx context.Context
	in  *inputs
	err error
}

// text replaces the placeholders in the value of a key.
func (r *rendering) text(key, text string) string {
	v, err := r.in.text(r.ctx, text)
	switch v.(type) {
	case []any, map[string]any:
		err = fmt.Errorf("after its inputs were put in: %s must be a text", key)
	}
	if err != nil && r.err == nil {
		r.err = err
	}
	return asText(v)
}

func (r *rendering) texts(key string, list []string) []string {
	var out []string
	for _, text := range list {
		out = append(out, r.text(key, text))
	}
	return out
}

func (r *rendering) named(key string, texts map[string]string) map[string]string {
	out := make(map[string]string, len(texts))
	for name, text := range texts {
		out[name] = r.text(key+"."+name, text)
	}
	return out
}

// render returns the configuration of a server for the supervisor, with the values of its inputs.
func (in *inputs) render(ctx context.Context, s *Server) (*mcpserver.Server, error) {
	r := &rendering{ctx: ctx, in: in}
	cfg := &mcpserver.Server{
		Name: s.Name, Namespace: "mcp", PerSession: s.PerSession, Start: mcpserver.StartBoot, Timeout: s.Timeout, IdleTimeout: max(in.o.IdleTimeout, 0),
		Command: r.text("command", s.Command), Args: r.texts("args", s.Args), Cwd: absolute(in.o.Dir, r.text("cwd", s.Cwd)),
		URL: r.text("url", s.URL), Env: r.secrets(r.named("env", s.Env)), Headers: r.secrets(r.named("headers", s.Headers)),
	}
	switch s.Type {
	case "stdio":
		cfg.Type, cfg.URL = mcpserver.TransportStdio, ""
		if strings.ContainsAny(cfg.Command, `/\`) {
			cfg.Command = absolute(in.o.Dir, cfg.Command)
		}
	case "sse":
		cfg.Type, cfg.Command = mcpserver.TransportSSE, ""
	default:
		cfg.Type, cfg.Command = mcpserver.TransportHTTP, ""
	}
	if cfg.Timeout == 0 && s.timeout != "" {
		timeout, err := duration(r.text("timeout", s.timeout))
		if err != nil && r.err == nil {
			r.err = err
		}
		cfg.Timeout = timeout
	}
	if r.err != nil {
		return nil, r.err
	}
	in.hideAll(append(redact.InURL(cfg.URL), redact.InArgs(cfg.Args)...), true)
	return cfg, nil
}

// hideAll hides several values.
func (in *inputs) hideAll(texts []string, certain bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, text := range texts {
		in.hide(text, certain)
	}
}

// secrets converts values into secrets that are never logged.
func (r *rendering) secrets(m map[string]string) map[string]strict.Secret {
	out := make(map[string]strict.Secret, len(m))
	for key, text := range m {
		out[key] = strict.Secret(text)
		r.in.hideAll([]string{text}, redact.Telling(key))
		r.in.hideAll(redact.InURL(text), true)
	}
	return out
}

// public returns the definition of an input in the form of get_config, without the default of a
// password.
func (in Input) public() (json.RawMessage, error) {
	if in.Password {
		in.Default = nil
	}
	return smcp.Encode(in)
}
