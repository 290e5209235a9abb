package primitive

// Kind is the kind of a primitive.
type Kind string

// The kinds of primitives. Resource templates share the ids and cards of resources. KindInternal
// marks cards of namespaces and clusters, which are not primitives.
const (
	KindTool     Kind = "tool"
	KindResource Kind = "resource"
	KindTemplate Kind = "resource_template"
	KindPrompt   Kind = "prompt"
	KindInternal Kind = "internal"
)

// Surface returns the kind under which primitives are listed and browsed: resource templates belong
// to resources.
func (k Kind) Surface() Kind {
	if k == KindTemplate {
		return KindResource
	}
	return k
}

// Key identifies an entry over time, independent of its definition.
type Key struct {
	Upstream string
	Kind     Kind
	Name     string // raw name, or the URI of a resource
}
