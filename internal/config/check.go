package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
)

// check applies the rules about several values together, and fills in derived values.
func (d *decoder) check(c *Config) {
	checkTLS(d, c)
	checkListen(d.Decoder, c)
	checkAuth(d.Decoder, c)
	checkIssuers(d.Decoder, c)
	checkInputs(d.Decoder, c)
	checkHTTP(d.Decoder, c)
	d.checkControls(c)
	checkPin(d.Decoder, c)
	d.checkAgents(c)
	checkScopes(d, c)
	d.checkHubs(c)
	d.checkTables(c)
	checkCredentials(d, c)
	checkRegistry(d.Decoder, c)
	d.checkServers(c)
	checkSavedNames(d.Decoder, c)
	checkForwarding(d, c)
	inheritTrust(c)
	checkProfiles(d.Decoder, c)
	checkSearch(d.Decoder, c)
	c.OTLP.Check(d.Decoder)
	checkHooks(d, c)
	checkStore(d, c)
	if c.PublicURL != "" {
		if u := d.CheckURL(c.PublicURL, "public_url"); u != nil && !c.Auth.Required() && !address.Loopback(u.Hostname()) {
			d.Warn(d.At("public_url"), "public_url", "public_url is not a loopback address and no auth.tokens are configured: whoever reaches it can call every tool")
		}
	}
	if d.Set("expose_hydrate") && d.Set("browse.expose_hydrate") && c.ExposeHydrate != c.Browse.ExposeHydrate {
		d.Fail(d.At("browse.expose_hydrate"), "browse.expose_hydrate", "expose_hydrate is %t but browse.expose_hydrate is %t; keep one of them", c.ExposeHydrate, c.Browse.ExposeHydrate)
	}
	checkStrict(d.Decoder, c)
	c.ExposeHydrate = c.ExposeHydrate || c.Browse.ExposeHydrate
	c.Browse.ExposeHydrate = c.ExposeHydrate
}

// checkStrict gives the keys that the published text decides the value that it wants, and refuses
// another one (spec/gateway §7).
func checkStrict(d *strict.Decoder, c *Config) {
	if !c.Strict {
		return
	}
	switch {
	case !d.Set("proxy.names"):
		c.Proxy.Names = NamesToolID
	case c.Proxy.Names != NamesToolID && c.Proxy.Names != NamesURLEncoded:
		d.Fail(d.At("proxy.names"), "proxy.names", "proxy.names is %s, but with strict: true proxy mode lists tools by their ids: write tool_id or url_encoded, or leave the key out", c.Proxy.Names)
	}
	if d.Set("log.unredacted") && !c.Log.Unredacted {
		d.Fail(d.At("log.unredacted"), "log.unredacted", "log.unredacted is false, but with strict: true the log has causes of errors in full: leave one of the two keys out")
	}
	c.Log.Unredacted = true
}

func checkListen(d *strict.Decoder, c *Config) {
	const key = "listen"
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		hint := ""
		if _, err := strconv.ParseUint(c.Listen, 10, 16); err == nil {
			hint = "; write 127.0.0.1:" + c.Listen
		}
		d.Fail(d.At(key), key, "listen must be an address and a port such as 127.0.0.1:8088, not %q%s", strict.Clip(c.Listen), hint)
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		d.Fail(d.At(key), key, "listen: the port must be a number from 0 to 65535, not %q", strict.Clip(port))
		return
	}
	if !address.Loopback(host) && !c.Auth.Required() && !d.Set("auth.tokens[0]") {
		d.Fail(d.At(key), key, "listen %s can be reached from other machines and no auth.tokens are configured, so anybody there could call every tool; listen on 127.0.0.1:%s, or add auth.tokens: [{name: NAME, sha256: HASH}]", strict.Clip(c.Listen), port)
	}
}

func checkAuth(d *strict.Decoder, c *Config) {
	names, hashes := map[string]int{}, map[string]int{}
	for i := range c.Auth.Tokens {
		t := &c.Auth.Tokens[i]
		path := "auth.tokens[" + strconv.Itoa(i) + "]"
		switch {
		case t.Name == "":
			d.Fail(d.At(path), path, "%s has no name; a token's name is its principal", path)
		case len(t.Name) > 64 || strings.ContainsFunc(t.Name, control):
			d.Fail(d.At(path), path, "%s.name must be 1 to 64 characters without control characters", path)
		}
		if j, ok := names[t.Name]; ok && t.Name != "" {
			d.Fail(d.At(path), path, "%s and auth.tokens[%d] have the same name %q; a name stands for one principal", path, j, strict.Clip(t.Name))
		}
		names[t.Name] = i
		checkExpiry(d, t, path)
		// The value is never shown: it may be the token itself.
		t.SHA256 = strings.ToLower(t.SHA256)
		sum, err := hex.DecodeString(t.SHA256)
		switch {
		case t.SHA256 == "":
			d.Fail(d.At(path), path, "%s has no sha256; print it with: printf %%s TOKEN | sha256sum", path)
			continue
		case err != nil || len(sum) != 32:
			d.Fail(d.At(strict.Join(path, "sha256")), strict.Join(path, "sha256"), "%s.sha256 must be the 64 hexadecimal digits of the token's SHA-256, not the token; print it with: printf %%s TOKEN | sha256sum", path)
			continue
		case [32]byte(sum) == sha256.Sum256(nil): // of no token at all
			d.Fail(d.At(strict.Join(path, "sha256")), strict.Join(path, "sha256"), "%s.sha256 is the hash of an empty token", path)
		}
		if j, ok := hashes[t.SHA256]; ok {
			d.Fail(d.At(path), path, "%s and auth.tokens[%d] have the same sha256; give each principal a token of its own", path, j)
		}
		hashes[t.SHA256] = i
		if t.Operator && t.scoped() {
			key := strict.Join(path, "operator")
			d.Fail(d.At(key), key, "%s needs a token that opens everything; leave out %s.agents and %s.metrics, or make a token of its own for the operator", key, path, path)
		}
	}
}

func checkSearch(d *strict.Decoder, c *Config) {
	const key = "search.embedding"
	e := &c.Search.Embedding
	switch {
	case !d.Set(key):
		return
	case e.URL == "":
		d.Fail(d.At(key), key, "%s has no url; write it like http://127.0.0.1:11434/v1", key)
	case e.Model == "":
		d.Fail(d.At(key), key, "%s has no model; name one that the endpoint offers", key)
	}
	if e.URL == "" {
		return
	}
	if u := d.CheckURL(e.URL, key+".url"); u != nil && u.Scheme == "http" && e.Key != "" && !address.Loopback(u.Hostname()) {
		d.Warn(d.At(key+".url"), key+".url", "%s.key goes to %s without TLS; use https", key, u.Host)
	}
}

func checkInputs(d *strict.Decoder, c *Config) {
	seen := map[string]int{}
	for i, in := range c.Inputs {
		path := "inputs[" + strconv.Itoa(i) + "]"
		if in.ID == "" {
			d.Fail(d.At(path), path, "%s has no id; ${input:id} needs one", path)
			continue
		}
		if j, ok := seen[in.ID]; ok {
			d.Fail(d.At(path), path, "%s and inputs[%d] have the same id %q", path, j, strict.Clip(in.ID))
		}
		seen[in.ID] = i
		switch {
		case in.Type == InputPick && len(in.Options) == 0:
			d.Fail(d.At(path), path, "%s is a pickString and has no options", path)
		case in.Type == InputCommand && in.Command == "":
			d.Strict(d.At(path), path, "%s is of type command and has no command", path)
		}
		if in.Type == InputPick && in.Default != nil && len(in.Options) > 0 && !slices.Contains(in.Options, *in.Default) {
			d.Fail(d.At(path), path, "%s.default must be one of its options: %s", path, strict.OneOf(in.Options))
		}
	}
}

func checkHTTP(d *strict.Decoder, c *Config) {
	for i, origin := range c.HTTP.AllowedOrigins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "") {
			d.Fail(d.At("http.allowed_origins"), "http.allowed_origins", "http.allowed_origins[%d] must be an origin such as https://app.example.com (no path), not %q", i, strict.Clip(origin))
		}
	}
	if slices.Contains(c.HTTP.AllowedOrigins, "*") && !c.Auth.Required() {
		d.Warn(d.At("http.allowed_origins"), "http.allowed_origins", "http.allowed_origins has \"*\" and no auth.tokens are configured: every web page that is opened on this machine can call every tool and register agents; name the origins, or set auth.tokens")
	}
	for i, host := range c.HTTP.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/ \t@?#") {
			d.Fail(d.At("http.allowed_hosts"), "http.allowed_hosts", "http.allowed_hosts[%d] must be a host name such as weir.example.com, with a port or without, not %q", i, strict.Clip(host))
		}
	}
}

func (d *decoder) checkServers(c *Config) {
	names, spaces := map[string]*Server{}, map[string]*Server{}
	for _, s := range c.Servers {
		if legalName(s.Name) {
			names[s.Name] = s // before the servers that must be renamed
		}
	}
	for _, s := range c.Servers {
		d.Within(d.paths[s], func() { d.checkServer(s, names, spaces) })
	}
	if !d.Set("mcpServers") && d.foreign {
		d.Fail(nil, "mcpServers", "there are no mcpServers in this file; name weir's own file weir.yaml or weir.json")
	} else if len(c.Servers) == 0 && len(d.Problems()) == 0 && !d.Set("agents") && !c.Hub.Enabled && !d.Set("hubs") {
		d.Warn(nil, "mcpServers", "mcpServers is empty: there is nothing to offer")
	}
}

// checkServer checks one entry against itself and those before it.
func (d *decoder) checkServer(s *Server, names, spaces map[string]*Server) {
	path := d.paths[s]
	at := d.At(path)
	d.checkName(s, path, at, names)
	checkNamespace(d.Decoder, s, path)
	if s.Disabled {
		s.Type = effectiveType(s)
		return
	}
	if d.flat[s] {
		return
	}
	if other := spaces[s.Namespace]; other != nil {
		d.Fail(at, path, "two servers have the namespace %q: %q and %q. Give one of them another: %s.namespace", s.Namespace, other.Name, s.Name, path)
	}
	readEnvFile(d, s, path)
	d.expand.noteServer(s)
	checkTransport(d.Decoder, s, path, at)
	checkOpenAPI(d, s, path)
	checkSandbox(d.Decoder, s, path)
	d.checkCommand(s, path)
	d.CheckHeaders(s.Headers, path, withoutUserTexts)
	checkOAuth(d, s, path)
	checkPerPrincipal(d.Decoder, s, path)
	checkLists(d.Decoder, s, path)
	checkUserTexts(d.Decoder, s, path)
	checkPatterns(d.Decoder, s, path)
	checkOverrides(d.Decoder, s, path)
	if d.startable != nil && s.Command != "" && len(d.Faults(path)) == 0 {
		if err := d.startable(s); err != nil {
			key := strict.Join(path, "command")
			d.Warn(d.At(key), key, "%s: %q cannot be started: %v", key, strict.Clip(s.Command), err)
		}
	}
	// A faulty server does not keep another one from its namespace.
	if spaces[s.Namespace] == nil && legalName(s.Name) && (d.whole || len(d.Faults(path)) == 0) {
		spaces[s.Namespace] = s
	}
}

// checkName refuses names that cannot stand in a URL path. Other clients allow any text, so it
// changes the name of a foreign file instead, unless names has the new one.
func (d *decoder) checkName(s *Server, path string, at *yaml.Node, names map[string]*Server) {
	if legalName(s.Name) {
		return
	}
	fixed := strings.TrimLeft(mapRunes(s.Name, func(r rune) bool { return nameRune(r) }), "._-")
	fixed = fixed[:min(len(fixed), 64)]
	switch {
	case fixed == "":
		d.Fail(at, path, "%q cannot be a server's name; use letters, digits, '.', '_' and '-', a letter or digit first", strict.Clip(s.Name))
	case d.foreign && names[fixed] != nil:
		d.Fail(at, path, "two servers would be called %q; rename one of them", fixed)
	case d.foreign:
		d.Warn(at, path, "the server name %q cannot stand in a URL; it is served as %q", strict.Clip(s.Name), fixed)
		s.Name, names[fixed] = fixed, s
	default:
		d.Fail(at, path, "%q cannot be a server's name: it must be 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first; write %s", strict.Clip(s.Name), fixed)
	}
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

func legalName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && !strings.ContainsAny(name[:1], "._-") &&
		!strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) })
}

// mapRunes replaces each rune that is not legal with '_'.
func mapRunes(text string, legal func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if legal(r) {
			return r
		}
		return '_'
	}, text)
}

// checkNamespace checks a configured namespace, or makes one from the name
// (spec/gateway §1.1: [a-z][a-z0-9_-]{0,63}).
func checkNamespace(d *strict.Decoder, s *Server, path string) {
	if s.Namespace == "" {
		s.Namespace = namespaceOf(s.Name)
		return
	}
	if fixed := namespaceOf(s.Namespace); fixed != s.Namespace {
		key := strict.Join(path, "namespace")
		d.Fail(d.At(key), key, "%s must begin with a lower-case letter and hold 1 to 64 lower-case letters, digits, '_' and '-', not %q; write %s", key, strict.Clip(s.Namespace), fixed)
	}
}

// namespaceOf maps a text to the grammar of namespaces. A legal text does not change.
func namespaceOf(name string) string {
	space := mapRunes(strings.ToLower(name), func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	})
	if space == "" || space[0] < 'a' || space[0] > 'z' {
		space = "mcp_" + strings.TrimLeft(space, "_-")
	}
	return space[:min(len(space), 64)]
}

func effectiveType(s *Server) mcpserver.Transport {
	switch {
	case s.Type == "streamable-http":
		return mcpserver.TransportHTTP
	case s.Type != "":
		return s.Type
	case s.OpenAPI.Document != "":
		return mcpserver.TransportOpenAPI
	case s.URL != "":
		return mcpserver.TransportHTTP
	}
	return mcpserver.TransportStdio
}

func checkTransport(d *strict.Decoder, s *Server, path string, at *yaml.Node) {
	typeKey := strict.Join(path, "type")
	asked := s.Type
	s.Type = effectiveType(s)
	// A key with a wrong value was reported; it is not reported as missing as well.
	hasCommand := s.Command != "" || d.Set(strict.Join(path, "command"))
	hasURL := s.URL != "" || d.Set(strict.Join(path, "url"))
	switch {
	case !hasCommand && !hasURL && d.Set(strict.Join(path, "openapi")): // checkOpenAPI says so
	case !hasCommand && !hasURL:
		d.Fail(at, path, "%s has neither command nor url; give the program to start or the URL to call", path)
	case asked == mcpserver.TransportStdio && hasURL:
		d.Fail(d.At(typeKey), typeKey, "%s is stdio, but %s.url is set; remove one of them", typeKey, path)
	case asked != "" && asked != mcpserver.TransportStdio && !hasURL:
		d.Fail(d.At(typeKey), typeKey, "%s is %s, which needs %s.url", typeKey, asked, path)
	}
	for _, k := range []string{"args", "env", "cwd"} {
		if key := strict.Join(path, k); d.Set(key) && !hasCommand && hasURL {
			d.Strict(d.At(key), key, "%s has no effect without %s.command", key, path)
		}
	}
	if key := strict.Join(path, "headers"); d.Set(key) && !hasURL && hasCommand {
		d.Strict(d.At(key), key, "%s has no effect without %s.url", key, path)
	}
	if s.URL != "" {
		d.CheckURL(s.URL, strict.Join(path, "url"))
	} else if d.Set(strict.Join(path, "url")) && !d.Bad(strict.Join(path, "url")) {
		d.Fail(d.At(strict.Join(path, "url")), strict.Join(path, "url"), "%s.url is empty", path)
	}
}

// checkSandbox checks the sandbox of a server.
func checkSandbox(d *strict.Decoder, s *Server, path string) {
	key := strict.Join(path, "sandbox")
	if !s.Sandbox.On() {
		if d.Set(key) && s.Sandbox.Mode == "" && !d.Bad(key) {
			d.Fail(d.At(key), key, "%s is empty; write auto, off, or an object such as {net: none}", key)
		}
		return
	}
	if s.Command == "" {
		d.Strict(d.At(key), key, "%s has no effect without %s.command: weir does not run the server", key, path)
		return
	}
	net := strict.Join(key, "net")
	if _, err := address.NewList(s.Sandbox.Named()); err != nil {
		d.Fail(d.At(net), net, "%s: %v; or write all, none, or *.example.com", net, err)
	}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read", s.Sandbox.Read}, {"write", s.Sandbox.Write}} {
		for _, path := range list.paths {
			if !filepath.IsAbs(path) && path != "~" && !strings.HasPrefix(path, "~/") {
				key := strict.Join(key, list.key)
				d.Fail(d.At(key), key, "%s: %q is not a whole path; begin it with / or ~", key, strict.Clip(path))
			}
		}
	}
}

func (d *decoder) checkCommand(s *Server, path string) {
	commandKey := strict.Join(path, "command")
	if s.Command == "" {
		if d.Set(commandKey) && !d.Bad(commandKey) {
			d.Fail(d.At(commandKey), commandKey, "%s is empty", commandKey)
		}
		return
	}
	if first, _, ok := strings.Cut(s.Command, " "); ok && len(s.Args) == 0 && !strings.ContainsAny(first, `/\`) {
		d.Warn(d.At(commandKey), commandKey, "%s holds a space: it is the name of one program; if %q is the program, put the rest into %s.args", commandKey, strict.Clip(first), path)
	}
	for i, text := range append([]string{s.Command, s.Cwd}, s.Args...) {
		if strings.Contains(text, "\x00") {
			key := []string{commandKey, strict.Join(path, "cwd"), strict.Join(path, "args")}[min(i, 2)]
			d.Fail(d.At(key), key, "%s holds a NUL character, which no program can be given", key)
		}
	}
	for name, value := range s.Env {
		key := strict.Join(strict.Join(path, "env"), name)
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(withoutUserTexts(value), "\x00") {
			d.Fail(d.At(key), key, "%s.env: %q cannot be a variable: its name must not be empty or hold '=', and neither part may hold NUL", path, strict.Clip(name))
		}
	}
	if s.Cwd != "" && !filepath.IsAbs(s.Cwd) && d.dir != "" {
		s.Cwd = filepath.Join(d.dir, s.Cwd)
	}
	if strings.ContainsRune(s.Command, filepath.Separator) && !filepath.IsAbs(s.Command) {
		if base := firstOf(s.Cwd, d.dir); base != "" {
			s.Command = filepath.Join(base, s.Command)
		}
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// maxOverride bounds the values of one override, in bytes.
const maxOverride = 64 << 10

// checkOverrides checks the overrides of a server by themselves: the tools are not known yet.
func checkOverrides(d *strict.Decoder, s *Server, path string) {
	names := map[string]string{}
	for _, o := range s.Overrides {
		at := strict.Join(strict.Join(path, "overrides"), o.Tool)
		if o.Name != "" && !legalName(o.Name) {
			d.Fail(d.At(strict.Join(at, "name")), strict.Join(at, "name"), "%s.name must be 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first, not %q", at, strict.Clip(o.Name))
		}
		name := cmp.Or(o.Name, o.Tool)
		if other, taken := names[name]; taken {
			d.Fail(d.At(at), at, "%s and %s have the name %q; give one of the tools another", other, at, strict.Clip(name))
		}
		names[name] = at
		if len(o.Default)+len(o.Fixed) > maxOverride {
			d.Fail(d.At(at), at, "%s has values of more than %d KB", at, maxOverride>>10)
		}
		_ = rawjson.EachMember(o.Fixed, func(m rawjson.Member) bool {
			if rawjson.Get(o.Default, string(m.Key)) != nil {
				d.Fail(d.At(at), at, "%s: the parameter %q is in default and in fixed; keep one of them", at, strict.Clip(string(m.Key)))
			}
			return true
		})
		_ = rawjson.EachMember(o.Annotations, func(m rawjson.Member) bool {
			if value := string(m.Value); strings.HasSuffix(string(m.Key), "Hint") && value != "true" && value != "false" {
				d.Fail(d.At(at), at, "%s.annotations: %s is true or false", at, strict.Clip(string(m.Key)))
			}
			return true
		})
	}
}

func checkPatterns(d *strict.Decoder, s *Server, path string) {
	for _, list := range []struct {
		key   string
		texts []string
	}{{"include_tools", s.IncludeTools}, {"exclude_tools", s.ExcludeTools}, {"tags", s.Tags}} {
		key := strict.Join(path, list.key)
		if i := slices.Index(list.texts, ""); i >= 0 {
			d.Fail(d.At(key), key, "%s[%d] is empty", key, i)
		}
	}
}
