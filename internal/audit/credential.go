package audit

import (
	"fmt"
	"slices"
	"strings"
)

// A CredentialChange describes a credential that a command of weir is about to change. The process
// that has the log open makes a record of it. It never has the value of the credential.
type CredentialChange struct {
	Command    string `json:"command"` // such as "weir login"
	Kind       Kind   `json:"kind"`    // SignIn or Credential
	Decision   string `json:"decision"`
	Server     string `json:"server,omitempty"`
	Credential string `json:"credential,omitempty"` // as Record.Credential
	Of         string `json:"of,omitempty"`         // the principal whose credential it is
	Failed     bool   `json:"failed,omitempty"`     // an announced change did not happen
}

// decisions are the changes that commands tell of (spec/audit §2).
var decisions = []string{"stored", "renewed", "replaced", "removed", "rekeyed"}

// Check returns the reason why a change is not a change of a credential by a command.
func (c *CredentialChange) Check() error {
	switch {
	case !strings.HasPrefix(c.Command, "weir "):
		return fmt.Errorf("command: %.40q is no command of weir", c.Command)
	case c.Kind != SignIn && c.Kind != Credential:
		return fmt.Errorf("kind: it must be %s or %s", SignIn, Credential)
	case !slices.Contains(decisions, c.Decision):
		return fmt.Errorf("decision: it must be one of %s", strings.Join(decisions, ", "))
	}
	return nil
}

// Fill writes the change into a record.
func (c *CredentialChange) Fill(r *Record) {
	r.Kind, r.Method, r.Decision, r.Server, r.Credential = c.Kind, c.Command, c.Decision, c.Server, c.Credential
	if c.Of != "" {
		r.Detail = "of " + c.Of
	}
	if c.Failed {
		r.Outcome = "failed"
	}
}
