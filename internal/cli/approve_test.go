package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/web/api"
)

// awaitApprovals returns the calls that wait, once there are n of them.
func awaitApprovals(t *testing.T, s *server, n int) []approval.Call {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if all := decode[[]approval.Call](t, weir(t, "approve", "--json", "--config", s.config).want(t, 0).stdout); len(all) == n {
			return all
		}
	}
	t.Fatalf("no %d calls wait", n)
	return nil
}

// TestApproveCommand: a call whose client cannot be asked waits for the operator, with progress, and
// ends with the decision.
func TestApproveCommand(t *testing.T) {
	t.Parallel()
	s := serve(t, "policy: {default: require_approval}\nmcpServers: {a: {command: %FAKE%}}\n")
	id := s.tool("a:echo")
	told := make(chan *sdk.ProgressNotificationParams, 100)
	client := sdk.NewClient(&sdk.Implementation{Name: "shy", Version: "1"}, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { told <- r.Params },
	})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: httpClient(t), DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	type outcome struct {
		text string
		err  error
	}
	call := func(ctx context.Context, text string) <-chan outcome {
		done := make(chan outcome, 1)
		params := &sdk.CallToolParams{Name: "tool_execute", Arguments: map[string]any{"tool_id": id, "args": map[string]any{"text": text}}}
		params.SetProgressToken("p-" + text[:3])
		go func() {
			r, err := session.CallTool(ctx, params)
			if err != nil {
				done <- outcome{err: err}
				return
			}
			raw, _ := json.Marshal(r)
			done <- outcome{text: string(raw)}
		}()
		return done
	}
	weir(t, "approve", "--config", s.config).want(t, 0, "No call waits")
	yes := call(t.Context(), "yes, please")
	waiting := awaitApprovals(t, s, 1)
	if c := waiting[0]; c.Server != "a" || !strings.Contains(c.Tool, id) || c.Principal != "local" || c.Client != "shy" || c.Until.Sub(c.Since) != 5*time.Minute || !strings.Contains(c.Message, `text (11 characters): "yes, please"`) {
		t.Errorf("it waits as %+v", c)
	}
	select {
	case p := <-told:
		if !strings.Contains(p.Message, "weir approve "+waiting[0].ID) || p.Progress >= 1 {
			t.Errorf("progress %+v", p)
		}
	case <-time.After(30 * time.Second):
		t.Error("the agent was told nothing")
	}
	logged(t, s, "weir approve "+waiting[0].ID)
	weir(t, "approve", "--config", s.config).want(t, 0, waiting[0].ID, "asked by local with shy", `text (11 characters): "yes, please"`)
	weir(t, "__complete", "approve", "--config", s.config, "").want(t, 0, waiting[0].ID)
	weir(t, "approve", waiting[0].ID, "--config", s.config).want(t, 0, "approved: ")
	if got := <-yes; got.err != nil || !strings.Contains(got.text, "yes, please") {
		t.Errorf("approved: %+v", got)
	}
	weir(t, "approve", waiting[0].ID, "--config", s.config).want(t, 4, "its time is up")

	no := call(t.Context(), "no, thanks")
	weir(t, "approve", awaitApprovals(t, s, 1)[0].ID, "--deny", "--reason", "not today", "--config", s.config).want(t, 0, "denied: ")
	if got := <-no; !strings.Contains(got.text, "an operator did not approve it: not today") || !strings.Contains(got.text, "PERMISSION_DENIED") {
		t.Errorf("denied: %+v", got)
	}

	long := call(t.Context(), "lon"+strings.Repeat("g", 9000))
	partly := awaitApprovals(t, s, 1)[0]
	if !partly.Partly || !strings.Contains(partly.Message, "characters not shown") || !strings.Contains(partly.Message, "--unseen") {
		t.Errorf("a long call: %.300s", partly.Message)
	}
	weir(t, "approve", partly.ID, "--config", s.config).want(t, 2, "--unseen")
	weir(t, "approve", partly.ID, "--unseen", "--config", s.config).want(t, 0, "approved: ")
	if got := <-long; got.err != nil {
		t.Errorf("a long call: %+v", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	gone := call(ctx, "gone")
	awaitApprovals(t, s, 1)
	cancel()
	<-gone
	awaitApprovals(t, s, 0)
	weir(t, "approve", "--deny", "--config", s.config).want(t, 2, "give its ID")
	if status, body := exchange(t, "POST", s.base+api.Path+"approvals/x", `{"decision":"maybe"}`, "Authorization", "Bearer "+operatorsKey(t), "Content-Type", "application/json"); status != 400 {
		t.Errorf("%d %s", status, body)
	}
}

// TestApprovalWaitOff: with approval_wait: 0 a call is refused at once, as it is without an operator.
func TestApprovalWaitOff(t *testing.T) {
	t.Parallel()
	s := serve(t, "policy: {default: require_approval, approval_wait: 0s}\nmcpServers: {a: {command: %FAKE%}}\n")
	id := s.tool("a:echo")
	status, body, err := post(t.Context(), httpClient(t), s.url, "tool_execute", modernCall(1, "tool_execute", map[string]any{"tool_id": id, "args": map[string]any{"text": "x"}}))
	if err != nil || status != 200 || !strings.Contains(body, "cannot be asked") {
		t.Errorf("%d %s %v", status, body, err)
	}
}
