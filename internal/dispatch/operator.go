package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// An Operators asks operators about calls whose client cannot be asked. The zero value asks none.
type Operators struct {
	Room *approval.Room
	// Wait bounds the wait for a decision; 0 refuses such calls at once.
	Wait time.Duration
}

// SetOperators says who is asked about calls whose client cannot be asked. It must be called before
// the first Admit.
func (c *Controls) SetOperators(o Operators) { c.operators = o }

// ask waits for the decision of an operator. If operators cannot be asked, it returns cannot.
func (o Operators) ask(ctx context.Context, a *Act, s Subject, v verdict, q question, cannot *result.Error) (more int, err error) {
	if o.Room == nil || o.Wait <= 0 {
		return 0, cannot
	}
	about := approval.Question{
		Tool: shownText(a.name(s)), Principal: text.Line(a.Request.Session.Principal(), ShownName), Partly: q.hesitant, Calls: q.most,
		Message: strings.Replace(q.message, unlessSet, "\nNot everything fits here: weir approve asks for --unseen.", 1),
	}
	if s.Entry != nil {
		about.Server = shownText(s.Entry.Upstream)
	}
	info, _ := a.Request.Session.Client()
	if meta, err := a.Request.Fields().Meta(); err == nil && a.Request.Modern() {
		info = meta.ClientInfo
	}
	about.Client = text.Line(rawjson.Text(rawjson.Get(info, "name")), ShownName)
	answer, err := o.Room.Ask(ctx, about, o.Wait, keepAlive(ctx, a.Request))
	switch {
	case errors.Is(err, approval.ErrNoOperator):
		return 0, cannot
	case errors.Is(err, approval.ErrFull):
		return 0, v.refusal(a, s, "a person has to approve it, and too many calls wait for that already; try again in a while")
	case errors.Is(err, approval.ErrTooLate):
		return 0, v.refusal(a, s, fmt.Sprintf("a person has to approve it, and no operator did within %s (weir approve)", o.Wait))
	case err != nil:
		return 0, err
	case !answer.Approved && answer.Reason != "":
		return 0, v.refusal(a, s, "an operator did not approve it: "+text.Line(answer.Reason, text.MaxMessageChars))
	case !answer.Approved:
		return 0, v.refusal(a, s, "an operator did not approve it")
	}
	return max(0, min(answer.Calls, q.most)-1), nil
}

// WaitsForYes is the beginning of the progress of a call that waits for an operator; the id of the call
// follows.
const WaitsForYes = "waits for a yes of an operator: weir approve "

// keepAlive returns a function that tells the agent of the wait as progress, nil if the agent wants
// none. The progress stays below 1, because the server's progress follows and must be higher.
func keepAlive(ctx context.Context, r *mcp.Request) func(id string, waited time.Duration) {
	meta, err := r.Fields().Meta()
	if err != nil || meta.ProgressToken == nil || r.Peer == nil {
		return nil
	}
	return func(id string, waited time.Duration) {
		params := append(append([]byte(`{"progressToken":`), meta.ProgressToken...), `,"progress":`...)
		params = strconv.AppendFloat(params, min(waited.Hours(), 0.999), 'f', 6, 64)
		params = rawjson.AppendString(append(params, `,"message":`...), WaitsForYes+id)
		_ = r.Peer.Notify(ctx, "notifications/progress", json.RawMessage(append(params, '}'))) // the agent may be gone
	}
}
