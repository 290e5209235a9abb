package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/trail"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// A log has one writer, and a command writes credentials while a gateway has the log open:
//
//	weir login, logout, credentials ──▶ the gateway of the configuration runs ──▶ it writes the record
//	                                 ╰▶ its log is free ──▶ the command opens it for one record
//	                                 ╰▶ neither ──▶ a note on stderr; with audit.required nothing changes

// credentialLog records in the audit log of a configuration the changes of credentials by one command.
type credentialLog struct {
	a       *process
	config  *config.Config // nil if the credentials belong to no configuration
	path    string         // of the configuration
	command string         // such as "weir login"
	failed  error          // why the log has no records of this command
}

// recordTime bounds how long a command waits for the gateway's record.
const recordTime = 10 * time.Second

// newCredentialLog returns the log of the configuration c, which a command has found by the value of
// its flag --config. c may be nil.
func newCredentialLog(a *process, c *config.Config, named, command string) (*credentialLog, error) {
	l := &credentialLog{a: a, config: c, command: command}
	if c == nil || c.Audit.Dir == "" {
		return l, nil
	}
	found, err := findConfig(a.lookupEnv, named)
	if err != nil {
		return nil, err
	}
	l.path = found.path
	return l, nil
}

// store returns the store with records of the command's changes in it. signIn says that a person
// signs in.
func (l *credentialLog) store(s vault.Store, signIn bool) vault.Store {
	return trail.CommandStore{Store: s, Command: l.command, SignIn: signIn, Tell: func(ctx context.Context, c audit.CredentialChange) error { return l.tell(ctx, &c) }}
}

// ready returns an error if the command must not start, because the log is required and takes no
// records.
func (l *credentialLog) ready(ctx context.Context) error { return l.tell(ctx, nil) }

// tell records a change that is about to happen; nil only finds out whether a record can be written.
// It returns an error if the change must not happen. Without a record of a change that may happen, it
// says so once on stderr.
func (l *credentialLog) tell(ctx context.Context, c *audit.CredentialChange) error {
	if l.config == nil || l.config.Audit.Dir == "" {
		return nil
	}
	required := l.config.Audit.Required
	if l.failed == nil {
		l.failed = l.record(ctx, c)
		switch {
		case l.failed == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case !required:
			l.a.note("%s: the audit log has no record of this: %v", l.command, l.failed)
		}
	}
	if l.failed != nil && required {
		return failf(exitUnavailable, "%s changes nothing: audit.required is set, and the audit log takes no record: %w", l.command, l.failed)
	}
	return nil
}

// record has the gateway write a change, or writes it to the log that no gateway has open.
func (l *credentialLog) record(ctx context.Context, c *audit.CredentialChange) error {
	served := l.throughGateway(ctx, c)
	if served == nil || ctx.Err() != nil {
		return served
	}
	// audit.key of a configuration whose inputs were not asked for would start a file with another key.
	if strings.Contains(l.config.Audit.Key.Reveal(), inputUnasked) {
		return errors.New("audit.key has an input, which commands do not ask for, and no gateway of this configuration writes the record")
	}
	err := trail.RecordChange(ctx, l.config, c)
	if err != nil && !errors.Is(served, errNoGateway) {
		return served
	}
	return err
}

var errNoGateway = errors.New("no gateway of this user runs with the configuration")

// throughGateway has the running gateway of the configuration write a change.
func (l *credentialLog) throughGateway(ctx context.Context, c *audit.CredentialChange) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	f := readRunFile(l.a.lookupEnv, l.path)
	if f == nil || !f.runs(ctx) {
		return errNoGateway
	}
	o := &operator{base: strings.TrimSuffix(f.URL, "/mcp")}
	o.useKey(l.a)
	body := map[string][]*audit.CredentialChange{"changes": {}}
	if c != nil {
		body["changes"] = append(body["changes"], c)
	}
	var answer struct{}
	return o.post(ctx, "audit/credentials", body, &answer)
}
