package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
)

// A person answers questions of a gateway or a server during a call, at the terminal. It is the Peer that
// a bridge.Back asks:
//
//	weir call ──tools/call──▶ gateway
//	          ◀──elicitation/create── approval of the policy, or a form of the server
//	terminal ◀──▶ person ──accept, decline or cancel──▶
//
// Without a terminal a client does not declare that it can be asked. It is safe for concurrent use; questions
// wait for each other.
type person struct {
	a *process
	// interrupted ends when the command is interrupted. The context of a call goes on until the
	// answer "cancel" has been sent; see callContext.
	interrupted context.Context
	// pause, if set, ends other drawings on the terminal, such as a progress bar.
	pause func()
	// tell, if set, gets progress notifications.
	tell func(progress)

	asking atomic.Bool // a question is on the terminal, or was interrupted there

	mu       sync.Mutex // guards below, and the order of questions
	keyboard *questions // nil without a terminal
}

var _ mcp.Peer = (*person)(nil)

// elicits are the capabilities of a client whose person can be asked.
var elicits = json.RawMessage(`{"elicitation":{"form":{}}}`)

// newPerson returns the person at the terminal of a process. ctx ends when the command is
// interrupted.
func newPerson(a *process, ctx context.Context) *person {
	p := &person{a: a, interrupted: ctx}
	p.keyboard, _ = newQuestions(a)
	return p
}

// back returns the Peer for the questions and notifications of a call.
func (p *person) back(server string) *bridge.Back {
	return &bridge.Back{Server: server, Request: &mcp.Request{Method: "tools/call", Session: mcp.NewSession("", "local"), Peer: p}}
}

// Notify implements mcp.Peer.
func (p *person) Notify(_ context.Context, method string, params json.RawMessage) error {
	var now progress
	if method == "notifications/progress" && p.tell != nil && json.Unmarshal(params, &now) == nil {
		p.tell(now)
	}
	return nil
}

// Call implements mcp.Peer.
func (p *person) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	if method != "elicitation/create" {
		return nil, mcp.MethodNotFound(method)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := p.elicit(ctx, params)
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("the answers: %w", err)
	}
	return raw, nil
}

// An elicited is the result of elicitation/create.
type elicited struct {
	Action  string                     `json:"action"`
	Content map[string]json.RawMessage `json:"content,omitzero"`
}

// The actions of an elicited.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// elicit asks the person. The caller holds p.mu.
func (p *person) elicit(ctx context.Context, params json.RawMessage) elicited {
	f, err := readForm(params)
	if err != nil {
		p.a.note("The server asks something that cannot be asked here, and the answer is no: %v", err)
		return elicited{Action: actionDecline}
	}
	if p.keyboard == nil {
		return elicited{Action: actionDecline}
	}
	if p.pause != nil {
		p.pause()
	}
	p.asking.Store(true)
	defer func() {
		if p.interrupted.Err() == nil { // else the answer has yet to be sent
			p.asking.Store(false)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.interrupted, cancel)()
	out, err := p.fill(ctx, f)
	if err != nil {
		fmt.Fprintln(p.a.stderr)
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			complain(p.a.stderr, err)
		}
		return elicited{Action: actionCancel}
	}
	return out
}

// fill asks for the fields of a form, one by one. The error is io.EOF at the end of input, and that
// of ctx if the person interrupts.
func (p *person) fill(ctx context.Context, f *form) (elicited, error) {
	screen := p.a.stderr
	fmt.Fprintln(screen, screen.paint(bold, "The call waits for an answer (Ctrl-C cancels it):"))
	for line := range strings.Lines(f.message) {
		// indented, so that no message can look like a prompt
		fmt.Fprintln(screen, "  "+screen.clean(strings.TrimRight(line, "\r\n")))
	}
	if len(f.fields) == 0 {
		return p.confirm(ctx, "Allow it? [y/N]", false, map[string]json.RawMessage{})
	}
	content := map[string]json.RawMessage{}
	for i := range f.fields {
		value, err := p.field(ctx, &f.fields[i])
		if err != nil {
			return elicited{}, err
		}
		if value != nil {
			content[f.fields[i].name] = value
		}
	}
	return p.confirm(ctx, "Send this? [Y/n]", true, content)
}

// field asks for one field until the answer is valid.
func (p *person) field(ctx context.Context, f *formField) (json.RawMessage, error) {
	screen := p.a.stderr
	if f.description != "" {
		fmt.Fprintln(screen, "  "+screen.paint(dim, screen.clean(oneLine(f.description))))
	}
	for i, o := range f.options {
		text := o.value
		if o.label != "" && o.label != o.value {
			text += "  " + o.label
		}
		fmt.Fprintf(screen, "  %d  %s\n", i+1, screen.clean(oneLine(text)))
	}
	for {
		answer, err := p.keyboard.line(ctx, screen.paint(bold, screen.clean(f.label())+":"), false)
		if err != nil {
			return nil, err
		}
		value, err := f.value(answer)
		if err == nil {
			return value, nil
		}
		fmt.Fprintln(screen, screen.clean("  "+err.Error()))
	}
}

// confirm asks a yes-or-no question.
func (p *person) confirm(ctx context.Context, question string, otherwise bool, content map[string]json.RawMessage) (elicited, error) {
	for {
		answer, err := p.keyboard.line(ctx, p.a.stderr.paint(bold, question), false)
		if err != nil {
			return elicited{}, err
		}
		yes := otherwise
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "":
		case "y", "yes":
			yes = true
		case "n", "no":
			yes = false
		default:
			fmt.Fprintln(p.a.stderr, "  y or n, please")
			continue
		}
		if !yes {
			return elicited{Action: actionDecline}, nil
		}
		return elicited{Action: actionAccept, Content: content}, nil
	}
}

// cancelGrace is how long a call may take to end after its question was cancelled.
const cancelGrace = 3 * time.Second

// callContext returns the context of a call. It ends with ctx, except while the person is asked:
// then the answer "cancel" is sent first, and the call has cancelGrace to end.
func (p *person) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	calling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if p.asking.Load() {
			select {
			case <-calling.Done():
			case <-time.After(cancelGrace):
			}
		}
		cancel()
	})
	return calling, func() { stop(); cancel() }
}

// explain improves the error of a call that no one could approve.
func (p *person) explain(err error) error {
	var refused *gatewayError
	if p.keyboard == nil && errors.As(err, &refused) && refused.Code == result.PermissionDenied && strings.Contains(refused.Message, "a person has to approve it") {
		return failf(exitRefused, "a person has to approve this call, and there is no terminal to ask at: run the same command where standard input and standard error are a terminal, or allow the call in the gateway's policy (%w)", err)
	}
	return err
}
