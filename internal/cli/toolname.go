package cli

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/web"
)

// A toolFinder returns the tools of a gateway's catalog that fit a query.
type toolFinder func(ctx context.Context, q tools.Query) (tools.List, error)

// toolsAt returns the toolFinder of a running gateway.
func toolsAt(mcpURL, token string) toolFinder {
	return func(ctx context.Context, q tools.Query) (list tools.List, err error) {
		given := url.Values{}
		if q.Name != "" {
			given.Set("name", q.Name)
		} else {
			given.Set("prefix", q.Prefix)
		}
		if q.Definitions {
			given.Set("definitions", "true")
		}
		err = fetchBeside(ctx, mcpURL, token, strings.TrimPrefix(web.ToolsPath, "/")+"?"+given.Encode(), &list)
		return list, err
	}
}

// maxCandidates bounds the tools that an error lists.
const maxCandidates = 5

// findTool returns the tool that a person named: by its id, by namespace:name or by its own name. The
// list is empty if there is none.
func (c *client) findTool(ctx context.Context, q tools.Query) (tools.List, error) {
	list, err := c.tools(ctx, q)
	if err == nil && list.Total == 0 {
		// A gateway that has just started may not have listed its servers. Browsing waits for them.
		if _, browseErr := c.browse(ctx, browseArgs{Path: "/"}); browseErr == nil {
			list, err = c.tools(ctx, q)
		}
	}
	if err != nil || list.Total < 2 {
		return list, err
	}
	ids := make([]string, 0, maxCandidates)
	for _, t := range list.Tools {
		if t.ID == q.Name {
			return tools.List{Tools: []tools.Tool{t}, Total: 1}, nil
		}
		if len(ids) < maxCandidates {
			ids = append(ids, t.ID)
		}
	}
	more := ""
	if list.Total > len(ids) {
		more = ", …"
	}
	return list, failf(exitUsage, "%q may be one of %d tools: %s%s. Give the id of one of them", q.Name, list.Total, strings.Join(ids, ", "), more)
}

// resolve returns the id of the tool that a person named. A name that fits no tool is returned as it
// is: the gateway's error names similar tools.
func (c *client) resolve(ctx context.Context, name string) (string, error) {
	if strings.Contains(name, "#") {
		return name, nil // a whole id
	}
	list, err := c.findTool(ctx, tools.Query{Name: name})
	switch {
	case list.Total > 1:
		return "", err
	case err != nil || len(list.Tools) == 0:
		return name, nil // the call itself reports the fault
	}
	return list.Tools[0].ID, nil
}

// completionTimeout bounds the wait after the Tab key.
const completionTimeout = time.Second

// runningTools asks the gateway that runs, for shell completion. It starts nothing and says nothing:
// without a gateway there is no completion.
func runningTools(a *process, ctx context.Context, t target, q tools.Query) []tools.Tool {
	if t.config != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	quiet := *a
	quiet.stderr = terminal{Writer: discard{}}
	at, token, err := runningURL(&quiet, ctx, t)
	if err != nil || at == "" {
		return nil
	}
	list, err := toolsAt(at, token)(ctx, q)
	if err != nil {
		return nil
	}
	return list.Tools
}

// discard drops all bytes that are written to it.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// completeToolIDs completes the id of a tool: as namespace:name, or whole where that is ambiguous or
// more of it was typed.
func completeToolIDs(a *process, ctx context.Context, t target, word string) []cobra.Completion {
	var ids []cobra.Completion
	seen := map[string]bool{}
	for _, tool := range runningTools(a, ctx, t, tools.Query{Prefix: word}) {
		for _, id := range []string{tool.Short, tool.ID, tool.Name} {
			if strings.HasPrefix(id, word) {
				if !seen[id] {
					ids = append(ids, cobra.CompletionWithDesc(id, cut(oneLine(tool.Description), 60)))
				}
				seen[id] = true
				break
			}
		}
	}
	return ids
}

// completeArgs completes --arg: the name of a parameter, and after NAME= its values where the schema
// lists them. given are the arguments that are on the line already.
func completeArgs(a *process, ctx context.Context, t target, id string, given []string, word string) []cobra.Completion {
	tools := runningTools(a, ctx, t, tools.Query{Name: id, Definitions: true})
	if len(tools) != 1 {
		return nil
	}
	there := map[string]bool{}
	for _, pair := range given {
		name, _, _ := strings.Cut(pair, "=")
		there[strings.TrimSuffix(name, ":")] = true
	}
	name, typed, valued := strings.Cut(word, "=")
	var found []cobra.Completion
	for _, p := range paramsOf(tools[0].InputSchema) {
		switch {
		case valued && p.name == name:
			for _, value := range p.values() {
				if strings.HasPrefix(value, typed) {
					found = append(found, name+"="+value)
				}
			}
		case !valued && strings.HasPrefix(p.name, word) && (!there[p.name] || p.many()):
			found = append(found, cobra.CompletionWithDesc(p.name+"=", cut(oneLine(p.description), 60)))
		}
	}
	return found
}

// completeID completes the arguments of a command that takes one tool id.
func completeID(a *process, t *target) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeToolIDs(a, cmd.Context(), *t, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// shortIDHelp says how tools can be named.
const shortIDHelp = `A tool is named by its id (notes:create_note#e44e4acc), by the id without its
hash (notes:create_note) or by its own name (create_note), as long as that means
one tool.`
