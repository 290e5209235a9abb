package agentserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/protocol/listchange"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// offer is the list of all tools, resources and prompts of an agent at one moment. It is immutable.
type offer struct {
	tools     map[string]*offered
	resources map[string]*Resource // by URI
	templates []*Resource          // in the order of the configuration
	prompts   map[string]*Prompt

	// The lists as clients get them.
	toolList, toolListTasks, resourceList, templateList, promptList json.RawMessage
}

// offered is a tool with the data that a call needs.
type offered struct {
	Tool
	entry   *catalog.Entry // checks arguments
	headers streamable.ParamHeaders
}

// newOffer checks that all names are unique and all schemas usable, and writes the lists.
func newOffer(tools []Tool, resources []Resource, prompts []Prompt) (*offer, error) {
	o := &offer{tools: map[string]*offered{}, resources: map[string]*Resource{}, prompts: map[string]*Prompt{}}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	definitions := make([]json.RawMessage, 0, len(tools))
	for _, t := range tools {
		switch old := o.tools[t.Name]; {
		case t.err != nil:
			fail("%w", t.err)
			continue
		case t.run == nil:
			fail("tool %q has no function: make it with Func", t.Name)
			continue
		case !validName(t.Name):
			fail("tool %q: a name is 1 to 128 letters, digits, - _ or .", clip(t.Name))
			continue
		case old != nil:
			fail("two tools are called %q: one from %s and one from %s; rename one of them", t.Name, old.source, t.source)
			continue
		}
		if t.InputSchema == nil {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		headers, err := streamable.ParseParamHeaders(t.InputSchema)
		if err != nil {
			fail("tool %q (%s): inputSchema: %w", t.Name, t.source, err)
			continue
		}
		o.tools[t.Name] = &offered{Tool: t, headers: headers}
		raw, err := t.definition(false)
		if err != nil {
			fail("tool %q (%s): %w", t.Name, t.source, err)
			continue
		}
		definitions = append(definitions, raw)
	}
	// The catalog reads schemas within bounds and compiles them.
	_, report := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "agent", Namespace: "agent", Tools: definitions})
	for _, f := range report.Findings {
		if f.Kind == catalog.FoundInvalid {
			fail("tool %q: %s", f.Name, f.Message)
		}
	}
	c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "agent", Namespace: "agent", Tools: definitions})
	for _, e := range c.Entries() {
		if t := o.tools[e.RawName]; t != nil {
			t.entry = e
			if err := e.SchemaError(); err != nil {
				fail("tool %q (%s): inputSchema is no JSON Schema: %w", t.Name, t.source, err)
			}
		}
	}
	for _, r := range resources {
		if err := r.check(); err != nil {
			fail("%w", err)
			continue
		}
		if old := o.resources[r.URI]; old != nil && r.URI != "" {
			fail("two resources have the URI %q: one from %s and one from %s", r.URI, old.source, r.source)
			continue
		}
		if r.URI != "" {
			o.resources[r.URI] = &r
		} else {
			o.templates = append(o.templates, &r)
		}
	}
	for _, p := range prompts {
		if old := o.prompts[p.Name]; old != nil {
			fail("two prompts are called %q: one from %s and one from %s", p.Name, old.source, p.source)
			continue
		}
		o.prompts[p.Name] = &p
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return o, o.write()
}

// definition returns the tool as it is listed. Only 2025-11-25 lists task-based execution in it.
func (t *Tool) definition(tasks bool) (json.RawMessage, error) {
	type execution struct {
		TaskSupport string `json:"taskSupport"`
	}
	d := struct {
		Name         string          `json:"name"`
		Title        string          `json:"title,omitempty"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
		Annotations  json.RawMessage `json:"annotations,omitempty"`
		Execution    *execution      `json:"execution,omitempty"`
	}{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations, nil}
	if t.Async {
		// Its answer to a caller that waits is the task's id, not its output.
		d.OutputSchema = nil
		if tasks {
			d.Execution = &execution{"optional"}
		}
	}
	return marshal(d)
}

// write makes the lists. They are sorted by name, so that a reload without changes gives equal
// lists.
func (o *offer) write() error {
	list := func(key string, n int, item func(i int) (any, error)) (json.RawMessage, error) {
		all := make([]any, n)
		for i := range n {
			var err error
			if all[i], err = item(i); err != nil {
				return nil, err
			}
		}
		return marshal(map[string]any{key: all})
	}
	names := slices.Sorted(maps.Keys(o.tools))
	var err error
	for _, l := range []struct {
		to    *json.RawMessage
		tasks bool
	}{{&o.toolList, false}, {&o.toolListTasks, true}} {
		if *l.to, err = list("tools", len(names), func(i int) (any, error) { return o.tools[names[i]].definition(l.tasks) }); err != nil {
			return err
		}
	}
	type resource struct {
		URI         string `json:"uri,omitempty"`
		URITemplate string `json:"uriTemplate,omitempty"`
		Name        string `json:"name"`
		Title       string `json:"title,omitempty"`
		Description string `json:"description,omitempty"`
		MIMEType    string `json:"mimeType,omitempty"`
	}
	told := func(r *Resource) resource {
		return resource{r.URI, r.Template, r.Name, r.Title, r.Description, r.MIMEType}
	}
	uris := slices.Sorted(maps.Keys(o.resources))
	if o.resourceList, err = list("resources", len(uris), func(i int) (any, error) { return told(o.resources[uris[i]]), nil }); err != nil {
		return err
	}
	if o.templateList, err = list("resourceTemplates", len(o.templates), func(i int) (any, error) { return told(o.templates[i]), nil }); err != nil {
		return err
	}
	prompts := slices.SortedFunc(maps.Values(o.prompts), func(a, b *Prompt) int { return cmp.Compare(a.Name, b.Name) })
	o.promptList, err = list("prompts", len(prompts), func(i int) (any, error) {
		p := prompts[i]
		return struct {
			Name        string           `json:"name"`
			Title       string           `json:"title,omitempty"`
			Description string           `json:"description,omitempty"`
			Arguments   []PromptArgument `json:"arguments,omitempty"`
		}{p.Name, p.Title, p.Description, p.Arguments}, nil
	})
	return err
}

// changed lists the notifications for the differences between o and before.
func (o *offer) changed(before *offer) (methods []string) {
	if string(o.toolList) != string(before.toolList) || string(o.toolListTasks) != string(before.toolListTasks) {
		methods = append(methods, listchange.Tools)
	}
	if string(o.resourceList) != string(before.resourceList) || string(o.templateList) != string(before.templateList) {
		methods = append(methods, listchange.Resources)
	}
	if string(o.promptList) != string(before.promptList) {
		methods = append(methods, listchange.Prompts)
	}
	return methods
}
