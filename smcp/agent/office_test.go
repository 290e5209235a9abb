package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// desk is a Computer of the office "o" whose answers a test gives.
type desk struct {
	*member.Member
	mu    sync.Mutex // guards below
	asked []string   // "event payload", without the ids of requests
}

// answers are what a desk answers to an event: a value, or a *smcp.Error.
type answers map[string]func(payload json.RawMessage) any

// newDesk connects a desk and an agent by a hub.
func newDesk(t *testing.T, o Options, on answers) (*desk, *Client) {
	t.Helper()
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
	m, err := member.New(member.Options{URL: server.URL, Role: smcp.RoleComputer, Name: "desk", Office: "o", MCP: true})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{Member: m}
	for event, answer := range on {
		m.OnConcurrent(event, func(e *socketio.Event) {
			raw, err := rawjson.Delete(e.Arg(0), "req_id")
			if err != nil {
				t.Error(err)
			}
			d.mu.Lock()
			d.asked = append(d.asked, event+" "+string(raw))
			d.mu.Unlock()
			out, err := smcp.Encode(answer(e.Arg(0)))
			if err != nil {
				t.Error(err)
			}
			if e.WantsAck() {
				_ = e.Ack(out)
			}
		})
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.URL, o.Office = server.URL, "o"
	c, err := Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return d, c
}

// got waits until the desk was asked something that has a text.
func (d *desk) got(t *testing.T, text string) {
	t.Helper()
	has := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return slices.ContainsFunc(d.asked, func(s string) bool { return strings.Contains(s, text) })
	}
	for end := time.Now().Add(30 * time.Second); !has(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s in %q", text, d.asked)
		}
	}
}

// TestAsk: what an agent asks a Computer, and what it reads of the answers.
func TestAsk(t *testing.T) {
	say := func(v any) func(json.RawMessage) any { return func(json.RawMessage) any { return v } }
	d, c := newDesk(t, Options{}, answers{
		smcp.EventGetTools:     say(smcp.Tools{Tools: []smcp.Tool{{Name: "sum"}}}),
		smcp.EventGetConfig:    say(smcp.Config{Servers: map[string]json.RawMessage{"files": json.RawMessage(`{"command":"x"}`)}}),
		smcp.EventGetDesktop:   say(smcp.Desktop{Desktops: []string{"window://a"}}),
		smcp.EventGetResources: say(smcp.Resources{Resources: []json.RawMessage{json.RawMessage(`{"uri":"a:b"}`)}, NextCursor: "2"}),
		smcp.EventGetSkills:    say(smcp.Skills{Skills: []smcp.SkillRef{{Name: "cook"}}}),
		smcp.EventGetSkill:     say(smcp.Skill{Name: "cook", TotalSize: 3}),
	})
	ctx := t.Context()
	if tools, err := c.GetTools(ctx, "desk"); err != nil || len(tools) != 1 || tools[0].Name != "sum" {
		t.Errorf("tools %+v, %v", tools, err)
	}
	if config, err := c.GetConfig(ctx, "desk"); err != nil || string(config.Servers["files"]) != `{"command":"x"}` {
		t.Errorf("config %+v, %v", config, err)
	}
	for _, size := range []int{-1, 0} {
		if windows, err := c.GetDesktop(ctx, "desk", size, "window://a"); err != nil || !slices.Equal(windows, []string{"window://a"}) {
			t.Errorf("desktop %q, %v", windows, err)
		}
	}
	if list, next, err := c.GetResources(ctx, "desk", "files", "1"); err != nil || len(list) != 1 || next != "2" {
		t.Errorf("resources %s, next %s, %v", list, next, err)
	}
	if skills, err := c.GetSkills(ctx, "desk"); err != nil || len(skills) != 1 || skills[0].Name != "cook" {
		t.Errorf("skills %+v, %v", skills, err)
	}
	if skill, err := c.GetSkill(ctx, "desk", "cook", "notes.md"); err != nil || skill.TotalSize != 3 {
		t.Errorf("skill %+v, %v", skill, err)
	}
	d.mu.Lock()
	asked := strings.Join(d.asked, "\n")
	d.mu.Unlock()
	for _, want := range []string{`"computer":"desk"`, `"desktop_size":0`, `"window":"window://a"`, `"mcp_server":"files"`, `"cursor":"1"`, `"name":"cook"`, `"rel_path":"notes.md"`} {
		if !strings.Contains(asked, want) {
			t.Errorf("no %s in\n%s", want, asked)
		}
	}
	if strings.Count(asked, "desktop_size") != 1 {
		t.Errorf("a size below 0 is none:\n%s", asked)
	}
	if _, err := c.GetTools(ctx, "nowhere"); err == nil {
		t.Error("a Computer that is not there")
	}
}

// TestReadBlob: a blob is read in parts, and one that changes, ends early or does not fit its hash is an error.
func TestReadBlob(t *testing.T) {
	data := []byte(strings.Repeat("0123456789", blobChunk/8))
	sum := sha256.Sum256(data)
	blob := func(change func(*smcp.Blob)) func(json.RawMessage) any {
		return func(raw json.RawMessage) any {
			var req smcp.GetBlob
			if err := json.Unmarshal(raw, &req); err != nil {
				return err.Error()
			}
			end := min(req.Offset+int64(req.MaxChunk), int64(len(data)))
			b := smcp.Blob{Handle: req.Handle, MIMEType: "text/plain", TotalSize: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Offset: req.Offset, EOF: end == int64(len(data)), Data: data[req.Offset:end]}
			change(&b)
			return b
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*smcp.Blob)
		fails  string
	}{
		{"whole", func(*smcp.Blob) {}, ""},
		{"changed", func(b *smcp.Blob) {
			if b.Offset > 0 {
				b.SHA256 = strings.Repeat("0", 64)
			}
		}, "has changed"},
		{"damaged", func(b *smcp.Blob) { b.Data[0] ^= 1 }, "damaged"},
		{"ends early", func(b *smcp.Blob) {
			if b.Offset > 0 {
				b.Data, b.EOF = nil, false
			}
		}, "ends at"},
		{"too large", func(b *smcp.Blob) { b.TotalSize = maxBlob + 1 }, "over the bound"},
		{"of no size", func(b *smcp.Blob) { b.TotalSize = -1 }, "over the bound"},
	} {
		before := slices.Clone(data)
		_, c := newDesk(t, Options{}, answers{smcp.EventGetBlob: blob(tt.change)})
		got, mime, err := c.ReadBlob(t.Context(), "desk", "blob_1")
		if tt.fails == "" && (err != nil || string(got) != string(before) || mime != "text/plain") || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s: %d bytes, %s, %v", tt.name, len(got), mime, err)
		}
		copy(data, before)
	}
}

// TestWriteBlob: the first part says how large the blob is, and the others belong to its upload.
func TestWriteBlob(t *testing.T) {
	var mu sync.Mutex
	var parts []smcp.PutBlob
	_, c := newDesk(t, Options{}, answers{smcp.EventPutBlob: func(raw json.RawMessage) any {
		var req smcp.PutBlob
		if err := json.Unmarshal(raw, &req); err != nil {
			return err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		parts = append(parts, req)
		done := smcp.PutBlobDone{UploadID: "u1"}
		if req.EOF {
			done.LandingPath = "/tmp/a.txt"
		}
		return done
	}})
	data := []byte(strings.Repeat("x", 2*blobChunk+1))
	path, err := c.WriteBlob(t.Context(), "desk", "a.txt", data)
	if err != nil || path != "/tmp/a.txt" || len(parts) != 3 {
		t.Fatalf("%s, %v, %d parts", path, err, len(parts))
	}
	sum := sha256.Sum256(data)
	if p := parts[0]; p.UploadID != "" || p.TotalSize != int64(len(data)) || p.SHA256 != hex.EncodeToString(sum[:]) || p.NameHint != "a.txt" || p.EOF {
		t.Errorf("the first part: %+v", p.Call)
	}
	if p := parts[2]; p.UploadID != "u1" || p.TotalSize != 0 || p.Offset != 2*blobChunk || !p.EOF || len(p.Data) != 1 {
		t.Errorf("the last part: upload %q, offset %d, %d bytes", p.UploadID, p.Offset, len(p.Data))
	}
	for _, n := range []int{0, maxBlob + 1} {
		if _, err := c.WriteBlob(t.Context(), "desk", "a", make([]byte, n)); err == nil {
			t.Errorf("a blob of %d bytes", n)
		}
	}
}

// TestCallTool: a call has arguments, a time and the caller's trace; its result comes as the Computer sent it.
func TestCallTool(t *testing.T) {
	const result = `{"content":[],"n":12345678901234567890}`
	d, c := newDesk(t, Options{}, answers{smcp.EventToolCall: func(json.RawMessage) any { return json.RawMessage(result) }})
	got, err := c.CallTool(t.Context(), ToolCall{Computer: "desk", Tool: "sum", Timeout: 1500 * time.Millisecond, Traceparent: "00-1"})
	if err != nil || string(got) != result {
		t.Errorf("%s, %v", got, err)
	}
	for _, want := range []string{`"tool_name":"sum"`, `"params":{}`, `"timeout":2`, `"traceparent":"00-1"`} {
		d.got(t, want)
	}
	if _, err := c.CallTool(t.Context(), ToolCall{Computer: "desk", Tool: "sum", Arguments: json.RawMessage(`{`)}); err == nil {
		t.Error("arguments that are no JSON")
	}
}

// TestCallToolIsCancelled: a call whose caller goes away is cancelled at the Computer.
func TestCallToolIsCancelled(t *testing.T) {
	reached, end := make(chan string, 1), make(chan struct{})
	cancelled := make(chan string, 1)
	d, c := newDesk(t, Options{}, answers{smcp.EventToolCall: func(raw json.RawMessage) any {
		reached <- rawjson.Text(rawjson.Get(raw, "req_id"))
		<-end
		return json.RawMessage(`{}`)
	}})
	defer close(end)
	d.On(smcp.NotifyCancel, func(e *socketio.Event) { cancelled <- rawjson.Text(rawjson.Get(e.Arg(0), "req_id")) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, ToolCall{Computer: "desk", Tool: "slow", ReqID: "r1"})
		done <- err
	}()
	if id := <-reached; id != "r1" {
		t.Errorf("the id is %s", id)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if id := <-cancelled; id != "r1" {
		t.Errorf("%s was cancelled", id)
	}
}

// TestChannel: messages go both ways until one side ends the channel.
func TestChannel(t *testing.T) {
	var d *desk
	var c *Client
	opened := make(chan smcp.MCPRequest, 4)
	d, c = newDesk(t, Options{}, answers{smcp.EventMCP: func(raw json.RawMessage) any {
		var req smcp.MCPRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return err.Error()
		}
		opened <- req
		return json.RawMessage(`{}`)
	}})
	open := func() (mcp.Stream, smcp.MCPRequest) {
		t.Helper()
		s, err := c.OpenMCP(t.Context(), "desk", "files")
		if err != nil {
			t.Fatal(err)
		}
		return s, <-opened
	}
	tell := func(req smcp.MCPRequest, m smcp.MCPMessage) {
		t.Helper()
		m.Channel, m.AgentSID = req.Channel, req.AgentSID
		if err := d.Emit(smcp.EventServerMCP, m); err != nil {
			t.Fatal(err)
		}
	}
	s, req := open()
	if req.Op != smcp.OpOpen || req.Server != "files" || req.Channel == "" {
		t.Errorf("%+v", req)
	}
	const ping, pong = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	if err := s.Write([]byte(ping)); err != nil {
		t.Fatal(err)
	}
	if sent := <-opened; sent.Op != smcp.OpSend || string(sent.Message) != ping {
		t.Errorf("%+v", sent)
	}
	tell(req, smcp.MCPMessage{Message: json.RawMessage(pong)})
	if got, err := s.Read(); err != nil || string(got) != pong {
		t.Errorf("%s, %v", got, err)
	}
	tell(req, smcp.MCPMessage{Closed: "the server ended"})
	for range 2 {
		if _, err := s.Read(); err == nil || !strings.Contains(err.Error(), "the server ended") {
			t.Errorf("%v", err)
		}
	}
	if err := s.Write([]byte(ping)); err == nil {
		t.Error("a message on a channel that has ended")
	}

	s, _ = open()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if sent := <-opened; sent.Op != smcp.OpClose {
		t.Errorf("%+v", sent)
	}
	if _, err := s.Read(); err != io.EOF {
		t.Errorf("%v", err)
	}

	// A Computer that leaves ends its channels.
	s, _ = open()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var e *mcp.Error
	if _, err := s.Read(); !errors.As(err, &e) || e.Kind != mcp.KindUpstreamUnavailable {
		t.Errorf("%v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenMCP(t.Context(), "desk", "files"); err == nil {
		t.Error("a channel of an agent that was closed")
	}
}
