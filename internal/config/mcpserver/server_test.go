package mcpserver_test

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

func TestServerLogShowsNoArguments(t *testing.T) {
	var out bytes.Buffer
	s := &mcpserver.Server{Name: "a", Args: []string{"--token=abcdefgh"}, URL: "http://u:p@h/"}
	slog.New(slog.NewTextHandler(&out, nil)).Info("start", "server", s)
	if strings.Contains(out.String(), "abcdefgh") || strings.Contains(out.String(), "u:p") || !strings.Contains(out.String(), "server.name=a") {
		t.Error(out.String())
	}
}

func TestOffers(t *testing.T) {
	for _, tc := range []struct {
		include, exclude []string
		tool             string
		want             bool
	}{
		{nil, nil, "any", true},
		{[]string{"get_*"}, nil, "get_user", true},
		{[]string{"get_*"}, nil, "set_user", false},
		{[]string{"*"}, []string{"*_secret"}, "get_secret", false},
		{[]string{"a?c"}, nil, "abc", true},
		{[]string{"a?c"}, nil, "aéc", true},
		{[]string{"a?c"}, nil, "ac", false},
		{[]string{"*a*b*c"}, nil, "a/x.abbc", true},
		{[]string{"*a*b*c"}, nil, "acb", false},
		{[]string{"[a]"}, nil, "[a]", true},
		{nil, []string{"**"}, "x", false},
		{[]string{"x**"}, nil, "x", true},
	} {
		s := &mcpserver.Server{IncludeTools: tc.include, ExcludeTools: tc.exclude}
		if got := s.Offers(tc.tool); got != tc.want {
			t.Errorf("include %v, exclude %v: Offers(%q) = %t", tc.include, tc.exclude, tc.tool, got)
		}
	}
}

// TestUserTextsAllocates keeps the look at a server without credentials of callers, which each
// request makes, free of garbage.
func TestUserTextsAllocates(t *testing.T) {
	s := &mcpserver.Server{Headers: map[string]strict.Secret{"X-Team": "blue"}}
	if n := testing.AllocsPerRun(100, func() {
		if names := s.UserTexts(); names != nil {
			t.Fatal(names)
		}
	}); n != 0 {
		t.Errorf("UserTexts allocates %v times", n)
	}
}

// TestFillUserTexts: a text has the credentials of a caller in it, and nothing else changes.
func TestFillUserTexts(t *testing.T) {
	text := strict.Secret("Bearer " + mcpserver.UserText("token") + "; as " + mcpserver.UserText("name"))
	if !mcpserver.HasUserText(text) || mcpserver.HasUserText("Bearer x") {
		t.Error("not the texts of callers")
	}
	got, err := mcpserver.FillUserTexts(text, func(name string) (string, error) { return "<" + name + ">", nil })
	if err != nil || got != "Bearer <token>; as <name>" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := mcpserver.FillUserTexts(text, func(string) (string, error) { return "", errors.New("unknown") }); err == nil {
		t.Error("an unknown credential was left out")
	}
	if got, err := mcpserver.FillUserTexts("plain", nil); err != nil || got != "plain" {
		t.Errorf("%q, %v", got, err)
	}
	s := &mcpserver.Server{Headers: map[string]strict.Secret{"A": text, "B": "plain"}, Env: map[string]strict.Secret{"C": strict.Secret(mcpserver.UserText("name") + mcpserver.UserText("home"))}}
	if names := s.UserTexts(); !slices.Equal(names, []string{"home", "name", "token"}) {
		t.Error(names)
	}
}

// TestWhoseCredential lists whose credential a server gets, and whose lists callers see.
func TestWhoseCredential(t *testing.T) {
	at := mcpserver.Server{URL: "https://mcp.example.com/mcp"}
	program := mcpserver.Server{Command: "run"}
	both := mcpserver.Server{Command: "run", URL: "http://127.0.0.1:1/mcp"}
	exchange := mcpserver.OAuth{Flow: mcpserver.OAuthTokenExchange}
	for _, c := range []struct {
		name                                     string
		of                                       mcpserver.Server
		credentials                              mcpserver.CredentialsMode
		lists                                    mcpserver.ListsMode
		oauth                                    mcpserver.OAuth
		agent                                    bool
		principal, forwards, fromCaller, ownList bool
	}{
		{"shared", at, "shared", "", exchange, false, false, false, false, false},
		{"each caller", at, mcpserver.CredentialsUser, "", mcpserver.OAuth{}, false, true, false, false, true},
		{"each caller, one list", at, mcpserver.CredentialsUser, mcpserver.ListsShared, mcpserver.OAuth{}, false, true, false, false, false},
		{"by a token exchange", at, mcpserver.CredentialsUser, "", exchange, false, true, false, true, true},
		{"the caller's token", at, mcpserver.CredentialsForward, mcpserver.ListsCaller, mcpserver.OAuth{}, false, true, true, true, true},
		{"an agent", at, mcpserver.CredentialsForward, "", mcpserver.OAuth{}, true, false, false, false, false},
		{"a program", program, mcpserver.CredentialsUser, "", mcpserver.OAuth{}, false, true, false, false, true},
		{"a program without the token", program, mcpserver.CredentialsForward, "", mcpserver.OAuth{}, false, false, false, false, false},
		{"a program at a url", both, mcpserver.CredentialsUser, "", mcpserver.OAuth{}, false, false, false, false, false},
	} {
		s := c.of
		s.Credentials, s.Lists, s.OAuth, s.Agent = c.credentials, c.lists, c.oauth, c.agent
		if s.PerPrincipal() != c.principal || s.Forwards() != c.forwards || s.FromCaller() != c.fromCaller || s.ListsPerCaller() != c.ownList {
			t.Errorf("%s: for each principal %t, forwards %t, from the caller %t, own lists %t", c.name, s.PerPrincipal(), s.Forwards(), s.FromCaller(), s.ListsPerCaller())
		}
	}
}

func TestAudiences(t *testing.T) {
	for _, c := range []struct {
		oauth mcpserver.OAuth
		want  []string
	}{
		{mcpserver.OAuth{}, []string{"https://a.example/mcp"}},
		{mcpserver.OAuth{Resource: mcpserver.ResourceNone}, []string{"https://a.example/mcp"}},
		{mcpserver.OAuth{Resource: "urn:a", Audience: "b"}, []string{"urn:a", "b"}},
		{mcpserver.OAuth{Audience: "b"}, []string{"b"}},
	} {
		s := &mcpserver.Server{URL: "https://a.example/mcp#part", OAuth: c.oauth}
		if got := s.Audiences(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c.oauth, got)
		}
	}
}

// TestDiff: disabled and faulty servers are not there, and an empty list is the same as none.
func TestDiff(t *testing.T) {
	server := func(name string, edit ...func(*mcpserver.Server)) *mcpserver.Server {
		s := &mcpserver.Server{Name: name, Command: "run"}
		for _, f := range edit {
			f(s)
		}
		return s
	}
	off := func(s *mcpserver.Server) { s.Disabled = true }
	faulty := func(s *mcpserver.Server) { s.Problems = []strict.Problem{{Message: "wrong"}} }
	argument := func(s *mcpserver.Server) { s.Args = []string{"x"} }
	empty := func(s *mcpserver.Server) { s.Args = []string{} }
	same := server("same")
	old := []*mcpserver.Server{same, server("off"), server("bad"), server("equal"), server("edited"), server("gone"), server("last")}
	next := []*mcpserver.Server{same, server("off", off), server("bad", faulty), server("equal", empty), server("edited", argument), server("new"), server("never", off), old[6]}
	change := mcpserver.Diff(old, next)
	if !slices.Equal(change.Added, []string{"new"}) || !slices.Equal(change.Removed, []string{"bad", "gone", "off"}) || !slices.Equal(change.Changed, []string{"edited"}) {
		t.Errorf("%+v", change)
	}
	if change := mcpserver.Diff(next, next); len(change.Added)+len(change.Removed)+len(change.Changed) > 0 {
		t.Errorf("%+v", change)
	}
	if a, b := mcpserver.Unlike(old, next); len(a) != 5 || len(b) != 6 {
		t.Errorf("%d and %d servers differ", len(a), len(b))
	}
}

// TestFingerprint: it changes with any value, and not with the order of a mapping or without a key.
func TestFingerprint(t *testing.T) {
	make := func(token, flow string) string {
		s := &mcpserver.Server{Name: "a", URL: "https://a.example", Headers: map[string]strict.Secret{"A": strict.Secret(token), "B": "b", "C": "c"}}
		s.OAuth.Flow = mcpserver.OAuthFlow(flow)
		return s.Fingerprint([]byte("key"))
	}
	first := make("x", "")
	for range 20 {
		if make("x", "") != first {
			t.Fatal("the order of headers counts")
		}
	}
	if make("y", "") == first || make("x", "code") == first || strings.Contains(first, "example") {
		t.Error("a value does not count, or is shown")
	}
	if (&mcpserver.Server{Name: "a"}).Fingerprint([]byte("key")) == (&mcpserver.Server{Name: "a"}).Fingerprint([]byte("other")) {
		t.Error("the key does not count")
	}
}

// TestFault: one line without the file's folder, because it reaches agents.
func TestFault(t *testing.T) {
	s := &mcpserver.Server{Name: "a"}
	if s.Faulty() || s.Fault() != "" {
		t.Errorf("a sound entry: %q", s.Fault())
	}
	s.Problems = []strict.Problem{{File: filepath.Join("home", "weir.yaml"), Message: "no command"}, {Message: "no url"}}
	if got := s.Fault(); !s.Faulty() || !strings.HasPrefix(got, "weir.yaml") || !strings.HasSuffix(got, "(and 1 more: weir config check lists them)") {
		t.Errorf("%q", got)
	}
	if s := (&mcpserver.Server{Headers: map[string]strict.Secret{"authorization": "x"}}); !s.Authorized() || (&mcpserver.Server{}).Authorized() {
		t.Error("not the header Authorization")
	}
}

// TestOpenAPICounts: a server that reads another document, or offers other operations, is another one.
func TestOpenAPICounts(t *testing.T) {
	was := &mcpserver.Server{Name: "a", OpenAPI: mcpserver.OpenAPI{Document: "a.yaml", Include: []string{"GET *"}}}
	for _, api := range []mcpserver.OpenAPI{{}, {Document: "b.yaml", Include: []string{"GET *"}}, {Document: "a.yaml"}, {Document: "a.yaml", Include: []string{"GET *"}, Exclude: []string{"/x"}}} {
		now := &mcpserver.Server{Name: "a", OpenAPI: api}
		if c := mcpserver.Diff([]*mcpserver.Server{was}, []*mcpserver.Server{now}); len(c.Changed) != 1 || was.Fingerprint(nil) == now.Fingerprint(nil) {
			t.Errorf("%+v counts as the same", api)
		}
	}
}

// An entry gives results a label if it says how far they can be trusted, or who may see them.
func TestFlowOfAServer(t *testing.T) {
	for _, tt := range []struct {
		flow mcpserver.Flow
		want bool
	}{
		{mcpserver.Flow{}, false},
		{mcpserver.Flow{Labels: mcpserver.LabelsTrusted}, false},
		{mcpserver.Flow{Integrity: mcpserver.Untrusted}, true},
		{mcpserver.Flow{Integrity: mcpserver.Trusted}, true},
		{mcpserver.Flow{Confidentiality: []string{"hr"}}, true},
	} {
		if got := tt.flow.Set(); got != tt.want {
			t.Errorf("%+v: %v", tt.flow, got)
		}
	}
}
