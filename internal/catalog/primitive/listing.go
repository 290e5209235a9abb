package primitive

import (
	"encoding/json"
	"iter"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Listing is the result of listing one upstream: the raw bytes of its definitions, in order. A
// catalog copies everything that it retains.
type Listing struct {
	// Upstream is the configured name of the server.
	Upstream string
	// Namespace is the namespace of the entries, mapped to the grammar. If it is empty, the catalog
	// is anonymous and infers namespaces from names.
	Namespace string
	// Order decides between upstreams that offer the same id: the lower one wins, or the first one
	// added if equal.
	Order int
	// Found marks an upstream that is not configured but was found at run time. A configured server
	// wins a shared name; see catalog.Named.
	Found bool
	// Tags are added to every entry.
	Tags []string
	// Title, About and Instructions are the server's description of itself; see Presented. The card
	// of a namespace starts with it.
	Title, About, Instructions string
	// Folders are those that the configuration names in the server's arguments. A card of a tool that several
	// servers offer says where they differ.
	Folders []string
	// Greeting is the whole answer of the server to the handshake. The catalog does not use it.
	Greeting Greeting
	// Notes are remarks about entries that stand on their cards, before the description.
	Notes map[Key]string

	Tools             []json.RawMessage
	Resources         []json.RawMessage
	ResourceTemplates []json.RawMessage
	Prompts           []json.RawMessage

	// Cut describes the lists that were not read completely: the missing part and the reason. Each
	// becomes a finding.
	Cut []string
}

// Greeting is a server's description of itself in the handshake.
type Greeting struct {
	ServerInfo   json.RawMessage
	Instructions string
}

// maxInstructions bounds the kept part of a server's description and instructions, in characters.
const maxInstructions = 1000

// Presented returns the listing with the texts of the handshake: the title and description in its
// raw serverInfo object, and its instructions.
func (l Listing) Presented(serverInfo []byte, instructions string) Listing {
	l.Greeting = Greeting{serverInfo, instructions}
	l.Title = visible.Text(rawjson.Text(rawjson.Get(serverInfo, "title")))
	l.About = visible.Text(text.Cut(rawjson.Text(rawjson.Get(serverInfo, "description")), maxInstructions))
	l.Instructions = visible.Text(text.Cut(instructions, maxInstructions))
	return l
}

// Definitions returns the lists of definitions with their kinds, in a fixed order.
func (l *Listing) Definitions() iter.Seq2[Kind, *[]json.RawMessage] {
	return func(yield func(Kind, *[]json.RawMessage) bool) {
		_ = yield(KindTool, &l.Tools) && yield(KindResource, &l.Resources) && yield(KindTemplate, &l.ResourceTemplates) && yield(KindPrompt, &l.Prompts)
	}
}

// Lists are the listings for one principal of the servers that list for each principal.
type Lists struct {
	// Key is equal for principals whose Of is equal, and "" if no server lists for each principal.
	Key string
	// Of has a listing of each server that has one for the principal, in the order of the
	// configuration. A server at which the principal has no credential lists only a sign-in. The
	// listings are immutable, and equal ones share one pointer.
	Of []*Listing
	// Missing are the servers whose listing for the principal is not known: it is being fetched, or
	// the last fetch has failed.
	Missing []string
}
