package clients

import (
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// Transport is the way to speak to a server.
type Transport string

// The transports, as weir's configuration calls them.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
	SSE   Transport = "sse"
)

// Server is an MCP server of a client, in weir's terms. Its texts are in weir's form: variables as
// ${env:X}, and $${ for the characters ${.
type Server struct {
	Client string      // the id of the client
	Name   string      // the client's name for it
	Path   splice.Path // of the entry in the client's file

	// Project is the folder of the entry; "" for an entry of all folders.
	Project string

	Transport    Transport
	Command      string
	Args         []string
	Env          map[string]string
	EnvFile      string
	Cwd          string
	URL          string
	Headers      map[string]string
	OAuth        *OAuth   // nil: the entry says nothing of a sign-in
	IncludeTools []string // nil: all
	ExcludeTools []string
	Timeout      time.Duration // 0: not said
	Sandbox      string        // auto or off, of weir alone; "": not said
	Disabled     bool
	Inputs       []splice.Object // the questions that its ${input:id} name, as VS Code has them

	// Unknown are the members of the entry that weir has no key for. They are left behind.
	Unknown splice.Object

	// Stay is the reason why only the client can use the entry; "" if weir can.
	Stay string

	// Ours says that the entry is weir itself.
	Ours bool
}

// Starts returns the command or the URL of a server on one line. Secrets are references in it.
func (s Server) Starts() string {
	if s.URL != "" {
		return s.URL
	}
	return strings.Join(append([]string{s.Command}, s.Args...), " ")
}

// Note is a remark about an entry for the user.
type Note struct {
	Client, Server, Text string

	Warn bool // something is not as it was in the client
}
