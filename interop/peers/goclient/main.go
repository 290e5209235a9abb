// Goclient is the client of the Go SDK, with its own OAuth, behind the line protocol of clients/lines.mjs: it lists tools and
// calls them over streamable HTTP.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const redirect = "http://127.0.0.1:9/callback"

// target is where to connect, of the command line.
type target struct {
	URL   string
	OAuth *struct{ Browser []string }
}

// browse has the browser open an address, and returns with what it comes back.
func (t *target) browse(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	line := append(t.OAuth.Browser, args.URL)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	back, err := url.Parse(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, err
	}
	q := back.Query()
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}

func (t *target) connect(ctx context.Context) (*mcp.ClientSession, error) {
	transport := &mcp.StreamableClientTransport{Endpoint: t.URL}
	if t.OAuth != nil {
		handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
			RedirectURL: redirect, AuthorizationCodeFetcher: t.browse,
			DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName: "weir-interop", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none",
				GrantTypes: []string{"authorization_code", "refresh_token"},
			}},
		})
		if err != nil {
			return nil, err
		}
		transport.OAuthHandler = handler
	}
	return mcp.NewClient(&mcp.Implementation{Name: "weir-interop-go", Version: "1.0.0"}, nil).Connect(ctx, transport, nil)
}

func say(message any) {
	if err := json.NewEncoder(os.Stdout).Encode(message); err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	var t target
	if err := json.Unmarshal([]byte(os.Args[1]), &t); err != nil {
		log.Fatal(err)
	}
	session, err := t.connect(ctx)
	if err != nil {
		log.Fatal("cannot connect: ", err)
	}
	say(map[string]any{"ready": session.InitializeResult()})
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var ask struct {
			ID     int
			Op     string
			Params mcp.CallToolParams
		}
		if err := json.Unmarshal(in.Bytes(), &ask); err != nil {
			log.Fatal(err)
		}
		var result any
		switch ask.Op {
		case "listTools":
			result, err = session.ListTools(ctx, nil)
		case "callTool":
			result, err = session.CallTool(ctx, &ask.Params)
		default:
			err = fmt.Errorf("no operation %q", ask.Op)
		}
		if err != nil {
			say(map[string]any{"id": ask.ID, "error": map[string]any{"code": nil, "message": err.Error()}})
			continue
		}
		say(map[string]any{"id": ask.ID, "result": result})
	}
	_ = session.Close()
}
