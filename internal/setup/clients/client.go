package clients

import (
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// Client is one line of the table: a program that uses MCP servers. It is read-only.
type Client struct {
	// ID is the name in commands: weir connect ID.
	ID string

	// Name is how the vendor writes it.
	Name string

	// Format is the language of its files.
	Format splice.Format

	// Project are the places of the files of a project, relative to its folder. weir leaves their
	// servers in the client.
	Project []string

	// Reload is the time at which a change of the file takes effect.
	Reload Reload

	// Proof is the evidence for this line.
	Proof Proof

	// EveryFile makes weir's entry go to each existing file. The client reads one of them, and only
	// the client knows which.
	EveryFile bool

	// NoFile says why weir does not create the client's file, as the end of a sentence; "" if it does.
	NoFile string

	// Quirk is a warning for users of this client, as a sentence; often "".
	Quirk string

	files  []string    // templates, the best one first; see Environment.path and Client.templates
	shared []string    // names of folders that other programs have as well: they are no sign of the client
	key    splice.Path // of the servers
	older  splice.Path // another place of the servers, used by files that have it
	form   form        // of an entry
	vars   syntax      // of variables in an entry
	unit   time.Duration
	link   func(entry splice.Object) string // the URL that makes the client ask for the entry; may be nil
}

// Reload is the time at which a client reads its file.
type Reload int

// When a client reads its file.
const (
	Restart Reload = iota // when it starts
	ByHand                // when the user asks it to
	Live                  // at once
)

// Advice returns the step that the user must take after a change.
func (r Reload) Advice() string {
	return [...]string{"restart it", "reload its MCP servers in its settings", "nothing"}[r]
}

// Proof is the evidence for a line of the table.
type Proof int

// How well a line is known, the least first.
const (
	Hearsay Proof = iota // from third parties: ask the user before writing
	Vendor               // from the vendor's code or documents
	Parsed               // the client has parsed weir's entry
	Run                  // the client has connected to weir
)

func (p Proof) String() string {
	return [...]string{"third parties", "vendor's documents", "parsed by the client", "run with the client"}[p]
}

// form is the form in which an entry of a client is written. More forms are read: see reader.
type form struct {
	url     string        // the member for the URL; "" for clients that only start programs
	http    splice.Object // before the URL
	more    splice.Object // after the URL
	stdio   splice.Object // before the command
	extra   splice.Object // after the arguments
	command string        // the member for the program; "" is command
	argv    bool          // the program and its arguments are one list
	list    bool          // the servers are a list of items with a name
	sse     string        // the member that is an SSE URL where it has no type
}

// ByID returns the client with an id.
func ByID(id string) (*Client, bool) {
	for _, c := range All() {
		if c.ID == id {
			return c, true
		}
	}
	return nil, false
}

// Pasted reports whether the client has no file: its user pastes the entry.
func (c *Client) Pasted() bool { return len(c.files) == 0 }

// HTTP reports whether the client's file can name a server by its URL.
func (c *Client) HTTP() bool { return c.form.url != "" }
