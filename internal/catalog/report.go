package catalog

import (
	"fmt"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// FindingKind is the kind of a finding.
type FindingKind string

// The kinds of findings. FoundInvalid, FoundDuplicate, FoundConflict and FoundRejected mean that
// the entry was left out of the catalog. FoundCollision says the same where two tools also have the
// same hash.
const (
	FoundInvalid   FindingKind = "definition_invalid" // not an object, or without a name
	FoundDuplicate FindingKind = "duplicate"          // one upstream offers it twice; the first one stays
	FoundConflict  FindingKind = "conflict"           // two upstreams offer the same id; the first one stays
	FoundCollision FindingKind = "id_collision"       // different tool names map to one id
	FoundShared    FindingKind = "name_shared"        // several configured servers list the same URI or prompt
	FoundRival     FindingKind = "name_rival"         // the same, and one of the servers is not configured
	// the server was left out: its name belongs to another owner
	FoundTaken       FindingKind = "name_taken"
	FoundRejected    FindingKind = "rejected"        // left out because its schema is invalid or over a limit
	FoundMapped      FindingKind = "name_mapped"     // a name or namespace that the grammar does not allow
	FoundVersion     FindingKind = "version_illegal" // illegal version, ignored
	FoundNoSchema    FindingKind = "schema_missing"  // tool without an input schema; it accepts any object
	FoundSchema      FindingKind = "schema_invalid"  // calls fail with SCHEMA_INVALID
	FoundSchemaLimit FindingKind = "schema_limit"    // over a limit of Limits
	FoundDialect     FindingKind = "dialect_unknown" // unknown $schema, read as 2020-12
	// regular expression that weir cannot evaluate, not enforced
	FoundPattern    FindingKind = "pattern_unchecked"
	FoundHidden     FindingKind = "hidden_text"         // invisible characters, removed from texts for models
	FoundTags       FindingKind = "tags_dropped"        // tags that cards may not contain
	FoundOverBudget FindingKind = "card_over_budget"    // over cardHardCap tokens
	FoundNoText     FindingKind = "description_missing" // hard to find and choose
	FoundTextCut    FindingKind = "text_cut"            // text of more than maxText bytes, cut
	FoundListCut    FindingKind = "list_cut"            // list too long; the rest was left out
	FoundRefused    FindingKind = "list_refused"        // the whole listing was left out; see Limits.Strict
	FoundOverride   FindingKind = "override"            // a change of the operator that cannot be made, or names nothing
	FoundMimic      FindingKind = "question_mimics"     // the server asked a question that starts as weir's own do
)

// Finding is one fact about one definition that operators should know.
type Finding struct {
	Kind     FindingKind
	Upstream string
	Name     string // raw name, or the URI of a resource
	ID       string // "" if none
	Message  string // names the thing, the owner and the fix
}

// String returns the finding as one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s %q: %s", f.Upstream, f.Kind, f.Name, f.Message)
}

// maxFindings bounds a report; further findings are only counted.
const maxFindings = 1000

// Report is the result of reading one upstream's listing.
type Report struct {
	Upstream  string
	Tools     int // entries in the catalog now
	Resources int // resource templates included
	Prompts   int
	Findings  []Finding
	Omitted   int // findings over the bound of 1,000
	// Changes since the previous listing; none for the first.
	Changes []Change
}

func (r *Report) count(e *Entry) {
	switch e.Kind {
	case primitive.KindTool:
		r.Tools++
	case primitive.KindPrompt:
		r.Prompts++
	default:
		r.Resources++
	}
}

func (r *Report) add(findings ...Finding) {
	room := max(0, maxFindings-len(r.Findings))
	if len(findings) > room {
		r.Omitted += len(findings) - room
		findings = findings[:room]
	}
	r.Findings = append(r.Findings, findings...)
}

// Has reports whether the report has a finding of a kind.
func (r *Report) Has(kind FindingKind) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == kind })
}
