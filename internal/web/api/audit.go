package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Audit is the audit log. Page may be called concurrently.
type Audit interface {
	Page(ctx context.Context, q audit.Query) (audit.Page, error)
}

// auditPath is the path of the audit log, which auditors may read as well.
const auditPath = Path + "audit"

// auditor is the role that may read the audit log, and nothing else of the API.
const auditor = "auditor"

// audit serves audit: a page of the audit log, in its order.
//
//	limit=N         at most N records; 100 without it
//	before=SEQ      the last records before this number, in place of the newest
//	after=SEQ       the first records after this number; 0 starts with the oldest
//	kind=, principal=, server=, tool=      only records of these
//	since=, until=  only records from this time on, and before this one (RFC 3339)
//
// The members older and newer of the answer are the next before and after. Each page that is read is
// itself a record of the log.
func (a *API) audit(w http.ResponseWriter, r *http.Request) error {
	if a.o.Audit == nil {
		return noAudit()
	}
	q, err := auditQuery(r.URL.Query())
	if err != nil {
		return err
	}
	page, err := a.o.Audit.Page(r.Context(), q)
	if err != nil {
		return err
	}
	a.o.Operated(r.Context(), audit.Role, "", "", "", "reads the audit log: "+text.Line(r.URL.RawQuery, 200))
	return write(w, page)
}

// auditKeys are the parameters of audit.
var auditKeys = []string{"limit", "before", "after", "kind", "principal", "server", "tool", "since", "until"}

// auditQuery reads the parameters of audit. An unknown one is an error: a misspelt filter would show
// more than was asked for.
func auditQuery(given url.Values) (q audit.Query, err error) {
	for key, values := range given {
		if !slices.Contains(auditKeys, key) || len(values) > 1 {
			return q, mcp.Errorf(mcp.KindInvalidParams, "%s: the parameters are %s, each once", text.Line(key, 40), strings.Join(auditKeys, ", "))
		}
	}
	wrong := func(key, want string) error {
		return mcp.Errorf(mcp.KindInvalidParams, "%s=%s: it must be %s", key, text.Line(given.Get(key), 40), want)
	}
	limit, err := number(given.Get("limit"), 0, audit.MaxPage)
	if err != nil || given.Has("limit") && limit == 0 {
		return q, wrong("limit", "a number from 1 to "+strconv.Itoa(audit.MaxPage))
	}
	q.Limit = int(limit)
	for key, to := range map[string]*uint64{"before": &q.Before, "after": &q.After} {
		if *to, err = number(given.Get(key), 0, 1<<62); err != nil {
			return q, wrong(key, "the seq of a record")
		}
	}
	q.Forward = given.Has("after")
	if q.Forward && given.Has("before") {
		return q, mcp.Errorf(mcp.KindInvalidParams, "before and after exclude each other")
	}
	for key, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if given.Get(key) == "" {
			continue
		}
		if *to, err = time.Parse(time.RFC3339, given.Get(key)); err != nil {
			return q, wrong(key, "a time such as 2027-01-01T08:00:00Z")
		}
	}
	q.Kind, q.Principal, q.Server, q.Tool = given.Get("kind"), given.Get("principal"), given.Get("server"), given.Get("tool")
	if q.Kind != "" && !slices.Contains(audit.Kinds(), audit.Kind(q.Kind)) {
		return q, wrong("kind", "a kind of records, such as begin, end, refusal, view")
	}
	return q, nil
}

func noAudit() error {
	return mcp.Errorf(mcp.KindNotFound, "this gateway keeps no audit log; audit.dir of its configuration starts one")
}

// maxChanges bounds the changes of one message.
const maxChanges = 100

// credentialChanges are the body of audit/credentials.
type credentialChanges struct {
	Changes []audit.CredentialChange `json:"changes"`
}

// recordedChanges are the answer of audit/credentials.
type recordedChanges struct {
	Recorded int `json:"recorded"`
}

// changed serves audit/credentials: a command of the gateway's user tells which credential it is
// about to change. The gateway writes the record, because a log has one writer. Without a change the
// answer only says that there is a log.
func (a *API) changed(w http.ResponseWriter, r *http.Request) error {
	if a.o.Changed == nil {
		return noAudit()
	}
	var body credentialChanges
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if len(body.Changes) > maxChanges {
		return mcp.Errorf(mcp.KindInvalidParams, "changes: at most %d in one message", maxChanges)
	}
	for i := range body.Changes {
		if err := body.Changes[i].Check(); err != nil {
			return mcp.Errorf(mcp.KindInvalidParams, "changes[%d].%w", i, err)
		}
	}
	for _, c := range body.Changes {
		if err := a.o.Changed(r.Context(), c); err != nil {
			return err
		}
	}
	return write(w, recordedChanges{len(body.Changes)})
}
