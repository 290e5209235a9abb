package agentclient

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Tool is a tool of an agent.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  json.RawMessage `json:"annotations"`
}

// Result is the result of a tool. Raw is all of it.
type Result struct {
	Content           []Content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
	Meta              json.RawMessage `json:"_meta"`
	Raw               json.RawMessage `json:"-"`
}

// Content is one block of a result or a prompt. Raw is all of it.
type Content struct {
	Type string
	Text string // where Type is "text"
	Raw  json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Content) UnmarshalJSON(raw []byte) error {
	c.Raw = append(json.RawMessage(nil), raw...)
	c.Type, c.Text = rawjson.Text(rawjson.Get(raw, "type")), rawjson.Text(rawjson.Get(raw, "text"))
	return nil
}

// Text returns the text of the first block of text, or "".
func (r *Result) Text() string {
	for _, c := range r.Content {
		if c.Type == "text" {
			return c.Text
		}
	}
	return ""
}

// TaskID returns the id of the task that an async tool started. It returns "" if the result is the
// tool's own.
func (r *Result) TaskID() string { return rawjson.Text(rawjson.Get(r.Meta, "taskId")) }

// ListTools returns all tools of an agent.
func (c *Client) ListTools(ctx context.Context, agent string) ([]Tool, error) {
	return list[Tool](ctx, c, agent, "tools/list", "tools")
}

// CallTool calls a tool. encoding/json must write args as an object; nil means no arguments. If the
// tool fails, CallTool returns no error: Result.IsError is set.
func (c *Client) CallTool(ctx context.Context, agent, tool string, arguments any, options ...CallOption) (*Result, error) {
	args, err := encode(arguments)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "the arguments of %q: %w", tool, err)
	}
	raw, err := c.Request(ctx, agent, "tools/call", map[string]any{"name": tool, "arguments": args}, options...)
	if err != nil {
		return nil, err
	}
	r := &Result{Raw: raw}
	return r, read(agent, "tools/call", raw, r)
}

// read decodes a result.
func read(agent, method string, raw json.RawMessage, to any) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return mcp.Errorf(mcp.KindUpstreamProtocol, "%s: the result of %s: %w", who(agent), method, err)
	}
	return nil
}

// Resource is a resource of an agent.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
}

// ListResources returns all resources of an agent.
func (c *Client) ListResources(ctx context.Context, agent string) ([]Resource, error) {
	return list[Resource](ctx, c, agent, "resources/list", "resources")
}

// ReadResource returns the text of a resource's first content, or "" if it is not text.
func (c *Client) ReadResource(ctx context.Context, agent, uri string) (string, error) {
	raw, err := c.Request(ctx, agent, "resources/read", map[string]string{"uri": uri})
	if err != nil {
		return "", err
	}
	var r struct {
		Contents []struct {
			Text string `json:"text"`
		} `json:"contents"`
	}
	if err := read(agent, "resources/read", raw, &r); err != nil || len(r.Contents) == 0 {
		return "", err
	}
	return r.Contents[0].Text, nil
}

// Prompt is a prompt of an agent.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Arguments   []PromptArgument `json:"arguments"`
}

// PromptArgument is one argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// Message is one message of a prompt.
type Message struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// ListPrompts returns all prompts of an agent.
func (c *Client) ListPrompts(ctx context.Context, agent string) ([]Prompt, error) {
	return list[Prompt](ctx, c, agent, "prompts/list", "prompts")
}

// GetPrompt returns the messages of a prompt.
func (c *Client) GetPrompt(ctx context.Context, agent, name string, arguments map[string]string) ([]Message, error) {
	raw, err := c.Request(ctx, agent, "prompts/get", map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return nil, err
	}
	var r struct {
		Messages []Message `json:"messages"`
	}
	err = read(agent, "prompts/get", raw, &r)
	return r.Messages, err
}

// Task is a task of an agent, as /mcps/{agent}/task reports it.
type Task struct {
	ID           string          `json:"id"`
	ToolName     string          `json:"toolName"`
	Status       string          `json:"status"` // pending, running, completed, failed or cancelled
	CreatedAt    time.Time       `json:"createdAt"`
	UpdatedAt    time.Time       `json:"updatedAt"`
	Error        string          `json:"error"`
	Result       json.RawMessage `json:"result"`
	LogTail      string          `json:"logTail"`
	LogSeq       int64           `json:"logSeq"`
	LogTruncated bool            `json:"logTruncated"`
}

// Done reports whether the task has ended.
func (t *Task) Done() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

// Task returns a task of the caller's own.
func (c *Client) Task(ctx context.Context, agent, id string) (*Task, error) {
	return c.task(ctx, http.MethodGet, agent, id)
}

// CancelTask cancels a task of the caller's own.
func (c *Client) CancelTask(ctx context.Context, agent, id string) (*Task, error) {
	return c.task(ctx, http.MethodDelete, agent, id)
}

// WaitTask asks for a task every interval (a second where zero) until it has
// ended.
func (c *Client) WaitTask(ctx context.Context, agent, id string, interval time.Duration) (*Task, error) {
	if interval <= 0 {
		interval = time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		t, err := c.Task(ctx, agent, id)
		if err != nil || t.Done() {
			return t, err
		}
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-tick.C:
		}
	}
}

func (c *Client) task(ctx context.Context, method, agent, id string) (*Task, error) {
	req, err := c.request(ctx, method, agent, "task?taskId="+url.QueryEscape(id), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	defer drain(resp.Body)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		if m, err := jsonrpc.Parse(body); err == nil && m.Err != nil {
			return nil, jsonrpc.ParseError(m.Err)
		}
		return nil, streamable.StatusFailure(c.router(), "the task of "+who(agent), resp)
	}
	var r struct {
		Task *Task `json:"task"`
	}
	if err := read(agent, "the task", body, &r); err != nil {
		return nil, err
	}
	if r.Task == nil {
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered no task", who(agent))
	}
	return r.Task, nil
}
