package catalog

import (
	"fmt"
	"slices"
)

// FindingKind says what is wrong with a definition.
type FindingKind string

// The kinds of findings. FoundInvalid, FoundDuplicate, FoundConflict and
// FoundRejected keep an entry out of the catalog, and so does FoundCollision where
// not even the hash tells two tools apart.
const (
	FoundInvalid     FindingKind = "definition_invalid"  // no object, or nothing to call it by
	FoundDuplicate   FindingKind = "duplicate"           // offered twice by one upstream: the first one stays
	FoundConflict    FindingKind = "conflict"            // offered by two upstreams under one id: the first one stays
	FoundCollision   FindingKind = "id_collision"        // tools with different names map to one id
	FoundShared      FindingKind = "name_shared"         // several servers of the configuration list a URI or a prompt
	FoundRival       FindingKind = "name_rival"          // the same, and one of them is not in the configuration
	FoundTaken       FindingKind = "name_taken"          // a server is left out: its name belongs to another owner
	FoundRejected    FindingKind = "rejected"            // left out because its schema is invalid or over a limit
	FoundMapped      FindingKind = "name_mapped"         // a name or namespace that the grammar does not allow
	FoundVersion     FindingKind = "version_illegal"     // a version that the grammar does not allow: ignored
	FoundNoSchema    FindingKind = "schema_missing"      // a tool without an input schema: any object is accepted
	FoundSchema      FindingKind = "schema_invalid"      // calls fail with SCHEMA_INVALID
	FoundSchemaLimit FindingKind = "schema_limit"        // over a limit of Limits
	FoundDialect     FindingKind = "dialect_unknown"     // a $schema that weir does not know: read as 2020-12
	FoundPattern     FindingKind = "pattern_unchecked"   // a regular expression weir cannot evaluate: not enforced
	FoundHidden      FindingKind = "hidden_text"         // characters that are not seen: left out of what models read
	FoundTags        FindingKind = "tags_dropped"        // tags that cards may not carry
	FoundOverBudget  FindingKind = "card_over_budget"    // over CardHardCap tokens
	FoundNoText      FindingKind = "description_missing" // hard to find and to choose
	FoundTextCut     FindingKind = "text_cut"            // a text of more than MaxText bytes: its beginning is kept
	FoundListCut     FindingKind = "list_cut"            // a list is longer than is read: the rest is left out
)

// Finding is one thing to know about one definition.
type Finding struct {
	Kind     FindingKind
	Upstream string
	Name     string // raw name, or the URI of a resource
	ID       string // "" if it has none
	Message  string // names the thing, the owner and the fix
}

// String returns the finding as one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s %q: %s", f.Upstream, f.Kind, f.Name, f.Message)
}

// maxFindings bounds a report; what is over it is counted.
const maxFindings = 1000

// Report says what came of one upstream's listing.
type Report struct {
	Upstream  string
	Tools     int // entries in the catalog now
	Resources int // resource templates included
	Prompts   int
	Findings  []Finding
	Omitted   int // findings over the bound of 1,000
	// Changes say what is different from the listing before, none for the first.
	Changes []Change
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
