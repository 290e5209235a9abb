// Package selection bounds the one moment at which a model's output decides the called tool: the
// choice of an id among those it was offered (spec/gateway §2.6). It knows nothing of tools,
// catalogs or models; it knows lists of ids.
//
//	before   ids ─▶ Schema(ids, OpenAI) ─▶ the provider's constrained output: only these can be said
//	after    what was said ─▶ Validate(said, ids) ─▶ accepted | repaired (by which rule) | rejected (why)
//
// Both are pure functions: the same input gives the same output, and no model is asked. An
// ambiguous selection is rejected, never guessed.
package selection

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Variant is the form in which a provider wants a schema.
type Variant string

// The variants.
const (
	JSONSchema Variant = "json_schema" // the bare schema
	OpenAI     Variant = "openai"      // the response_format envelope
	Anthropic  Variant = "anthropic"   // a tool definition with the schema as input_schema
)

// Errors of Schema.
var (
	// ErrNoCandidates: there is nothing to choose from.
	ErrNoCandidates = errors.New("no candidates: a selection needs at least one id to choose from")
	// errUnknownVariant is wrapped with the variant that was asked for.
	errUnknownVariant = errors.New("unknown schema variant")
)

// Property is the property of the schema that holds the chosen id.
const Property = "selection"

// schemaName is the name under which providers get the schema.
const schemaName = "tool_selection"

// Schema returns a JSON Schema whose one property, [Property], is an enum of
// ids, in the form of a variant. The ids keep their order; one that comes twice
// is in the enum once. The error is ErrNoCandidates or errUnknownVariant.
func Schema(ids []string, variant Variant) (json.RawMessage, error) {
	if len(ids) == 0 {
		return nil, ErrNoCandidates
	}
	bare := []byte(`{"type":"object","properties":{"` + Property + `":{"type":"string","enum":[`)
	seen := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		if _, twice := seen[id]; twice {
			continue
		}
		if len(seen) > 0 {
			bare = append(bare, ',')
		}
		seen[id] = struct{}{}
		bare = rawjson.AppendString(bare, id)
	}
	bare = append(bare, `]}},"required":["`+Property+`"],"additionalProperties":false}`...)
	switch variant {
	case JSONSchema:
		return bare, nil
	case OpenAI:
		return wrap(`{"type":"json_schema","json_schema":{"name":"`+schemaName+`","strict":true,"schema":`, bare, `}}`), nil
	case Anthropic:
		return wrap(`{"name":"`+schemaName+`","description":"Choose exactly one id among those offered.","input_schema":`, bare, `}`), nil
	}
	return nil, fmt.Errorf("%w %q: it must be %s, %s or %s", errUnknownVariant, variant, JSONSchema, OpenAI, Anthropic)
}

func wrap(head string, schema []byte, tail string) json.RawMessage {
	out := make([]byte, 0, len(head)+len(schema)+len(tail))
	return append(append(append(out, head...), schema...), tail...)
}

// Status is the outcome of a selection.
type Status string

// The statuses.
const (
	Accepted Status = "accepted" // exactly one of the ids
	Repaired Status = "repaired" // one of the ids, by a rule
	Rejected Status = "rejected" // none that is certain
)

// Rule is how a selection was repaired.
type Rule string

// The rules in the order in which they are tried.
const (
	RuleStrip    Rule = "strip"     // white space around an exact id
	RuleCaseFold Rule = "case_fold" // the only id that is equal when case is ignored
	RulePrefix   Rule = "prefix"    // the only id that starts with it when case is ignored
	// RuleBare is the rule of a caller that knows which definitions were shown: the only id that has a version
	// or a hash in addition. Validate does not apply it.
	RuleBare Rule = "bare"
)

// Reason is why a selection was rejected.
type Reason string

// The reasons.
const (
	reasonEmpty             Reason = "empty_selection"
	reasonNotOffered        Reason = "not_a_candidate"
	reasonAmbiguousCaseFold Reason = "ambiguous_case_fold"
	reasonAmbiguousPrefix   Reason = "ambiguous_prefix"
)

// Selection is the outcome of Validate. Its JSON is the output of `weir select`.
type Selection struct {
	Status Status `json:"status"`
	ID     string `json:"id,omitempty"`     // one of the offered ids; "" if rejected
	Rule   Rule   `json:"rule,omitempty"`   // set if repaired
	Reason Reason `json:"reason,omitempty"` // set if rejected
}

// OK reports whether the selection stands for one of the ids.
func (s Selection) OK() bool { return s.Status != Rejected }

// Validate checks the selected ids against the ids that were offered. Behind an exact match,
// repairs are tried in a fixed order against the value without white space around it: exact, then
// the unique id that is equal when case is ignored, then the unique id of which it is a prefix when
// case is ignored. Two that match are an ambiguity, which is rejected.
//
// An id that is offered twice counts once.
func Validate(selected string, offered []string) Selection {
	value := strings.TrimSpace(selected)
	if value == "" {
		return Selection{Status: Rejected, Reason: reasonEmpty}
	}
	folded := strings.ToLower(value)
	var equal, prefixed matches
	stripped := false
	for _, id := range offered {
		switch {
		case id == selected:
			return Selection{Status: Accepted, ID: id}
		case id == value:
			stripped = true
		default:
			if lower := strings.ToLower(id); lower == folded {
				equal.add(id)
			} else if strings.HasPrefix(lower, folded) {
				prefixed.add(id)
			}
		}
	}
	switch {
	case stripped:
		return Selection{Status: Repaired, ID: value, Rule: RuleStrip}
	case equal.several:
		return Selection{Status: Rejected, Reason: reasonAmbiguousCaseFold}
	case equal.id != "":
		return Selection{Status: Repaired, ID: equal.id, Rule: RuleCaseFold}
	case prefixed.several:
		return Selection{Status: Rejected, Reason: reasonAmbiguousPrefix}
	case prefixed.id != "":
		return Selection{Status: Repaired, ID: prefixed.id, Rule: RulePrefix}
	}
	return Selection{Status: Rejected, Reason: reasonNotOffered}
}

// matches are the different ids that a rule matched: the first, and whether
// there was another.
type matches struct {
	id      string
	several bool
}

func (m *matches) add(id string) {
	switch m.id {
	case "":
		m.id = id
	case id:
	default:
		m.several = true
	}
}
