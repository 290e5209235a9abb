package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// TestHealthy: a machine without a fault has no finding but good ones, of each group that there is.
func TestHealthy(t *testing.T) {
	t.Parallel()
	m := healthy()
	list := Run(t.Context(), m.environment(), m.setup(t))
	var ids []string
	for _, f := range list {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
		ids = append(ids, f.ID)
	}
	if want := []string{"config-ok", "runtime-ok", "server-ok", "gateway-ok", "client-ok"}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
}

// brokenMachines have one fault each. The finding has the id and the text of the case.
var brokenMachines = map[string]struct {
	breaks func(*machine)
	id     string
	thing  string
	text   string // in Text, Fix or Lines
}{
	"no configuration":   {func(m *machine) { m.config = "" }, "config-missing", "configuration", "weir init"},
	"broken YAML":        {func(m *machine) { m.config = "mcpServers: [" }, "config-broken", "/home/ann/.config/weir/weir.yaml", "weir.yaml:2"},
	"unset variable":     {func(m *machine) { m.config += "  keyed: {command: npx, env: {K: '${env:API_KEY}'}}\n" }, "config-server", "server keyed", "API_KEY"},
	"unknown key":        {func(m *machine) { m.config += "listn: 127.0.0.1:1\n" }, "config-broken", "/home/ann/.config/weir/weir.yaml", "listn"},
	"empty":              {func(m *machine) { m.config, m.servers = "mcpServers: {}\n", nil }, "config-warning", "/home/ann/.config/weir/weir.yaml", "nothing to offer"},
	"of a clone":         {func(m *machine) { m.distrust = errors.New("not agreed") }, "config-untrusted", "/home/ann/.config/weir/weir.yaml", "weir trust"},
	"unknown server key": {func(m *machine) { m.config += "  odd: {command: npx, comand: x}\n" }, "config-server", "server odd", "comand"},
	"readable secret": {func(m *machine) {
		m.config = "mcpServers:\n  files: {command: npx, env: {API_TOKEN: sk-0123456789abcdef0123}}\n"
		m.files["/home/ann/.config/weir/weir.yaml"] = file{m.config, 0o644}
	}, "config-readable", "/home/ann/.config/weir/weir.yaml", "chmod 600"},
	"readable store": {func(m *machine) { m.secrets = []string{"/s"}; m.files["/s"] = file{"", 0o640} }, "config-readable", "/s", "0640"},

	"open sandbox": {func(m *machine) {
		m.config, m.open = "mcpServers:\n  files: {command: npx, sandbox: auto}\n", "in a sandbox of landlock; open: signals reach other processes"
	}, "server-unconfined", "server files", "signals reach"},

	"no npx": {func(m *machine) { delete(m.files, "/usr/bin/npx") }, "runtime-missing", "server files", "nodejs.org"},
	"no such path": {func(m *machine) {
		m.config = "mcpServers:\n  files: {command: /opt/files}\n"
	}, "runtime-missing", "server files", "/opt/files"},
	"service without nvm": {func(m *machine) {
		m.env["PATH"] = "/home/ann/.nvm/versions/node/v22/bin:/usr/local/bin:/usr/bin"
		for _, name := range []string{"npx", "node"} {
			delete(m.files, "/usr/bin/"+name)
			m.files["/home/ann/.nvm/versions/node/v22/bin/"+name] = file{"", 0o755}
		}
		m.programs["/home/ann/.nvm/versions/node/v22/bin/node --version"] = "v22.1.0"
		m.service = Service{Installed: true, Enabled: true, Running: true, Lingers: true, Path: "/usr/bin:/usr/local/bin"}
	}, "runtime-service", "server files", "weir service install"},
	"nvm": {func(m *machine) {
		m.env["PATH"] = "/home/ann/.nvm/versions/node/v22/bin:/usr/local/bin"
		m.files["/home/ann/.nvm/versions/node/v22/bin/npx"] = file{"", 0o755}
		m.files["/home/ann/.nvm/versions/node/v22/bin/node"] = file{"", 0o755}
		m.programs["/home/ann/.nvm/versions/node/v22/bin/node --version"] = "v22.1.0"
	}, "runtime-nvm", "server files", "interactive"},
	"old node":    {func(m *machine) { m.programs["/usr/bin/node --version"] = "v16.20.2" }, "runtime-version", "Node.js", "16.20"},
	"asdf shim":   {func(m *machine) { m.programs["/usr/bin/node --version"] = "!No version is set for nodejs" }, "runtime-unusable", "Node.js", "No version is set"},
	"npx alone":   {func(m *machine) { delete(m.files, "/usr/bin/node") }, "runtime-missing", "Node.js", "node"},
	"slow shim":   {func(m *machine) { m.programs["/usr/bin/node --version"] = "hangs" }, "doctor-late", "Node.js", "2s"},
	"docker off":  {func(m *machine) { dockered(m, "!Cannot connect to the Docker daemon") }, "runtime-docker", "Docker", "Cannot connect"},
	"docker dead": {func(m *machine) { dockered(m, "hangs") }, "runtime-docker", "Docker", "does not answer"},
	"WSL": {func(m *machine) {
		m.files["/proc/version"] = file{"Linux version 5.15 Microsoft", 0o444}
		m.env["PATH"] = "/mnt/c/nodejs:/usr/local/bin:/usr/bin"
		m.files["/mnt/c/nodejs/npx"] = file{"", 0o755}
	}, "runtime-wsl", "server files", "/mnt/c/nodejs/npx"},
	"Windows, no npx": {func(m *machine) {
		m.os, m.env["PATH"], m.env["PATHEXT"] = "windows", `C:\nodejs;C:\weir`, ".EXE;.CMD"
		m.files[`C:\nodejs\node.exe`] = file{}
	}, "runtime-missing", "server files", "npx"},

	"cannot start": {down("server \"files\": cannot start \"npx\": the file may not be executed"), "server-start", "server files", "may not be executed"},
	"document":     {down("upstream \"files\": the OpenAPI document api.yaml cannot be used: no such file or directory"), "server-document", "server files", "api.yaml"},
	"exit":         {down("server \"files\" ended (exit status 1); its last words: API_KEY is missing"), "server-exit", "server files", "line 25"},
	"silence":      {func(m *machine) { m.servers[0] = Server{Name: "files", State: "starting"} }, "server-starting", "server files", "weir doctor NAME"},
	"no address":   {down(`server "files" cannot be found: the host name of its url has no address`), "server-dns", "server files", "url"},
	"long silence": {down(`server "files" did not answer initialize within 1m0s`), "server-silent", "server files", "1m0s"},
	"noise":        {down(`server "files" ended (exit status 0); it printed "hello" to stdout, which is for MCP messages only: its owner should have it print that to stderr`), "server-noise", "server files", "hello"},
	"changed": {func(m *machine) {
		m.servers[0].Differs, m.servers[0].Note = 2, "2 definitions differ from weir.lock, 1 held; look with weir trust diff files"
	}, "server-changed", "server files", "weir trust diff files"},
	"taken out": {func(m *machine) {
		m.servers[0].State, m.servers[0].Differs, m.servers[0].Note = "refused", 1, "taken out: 1 definition differs"
	}, "server-changed", "server files", "taken out"},
	"noise, ready": {func(m *machine) { m.servers[0].Noise = "Server running" }, "server-noise", "server files", "Server running"},
	"401":          {down(`server "files" does not accept the credentials (401): check the Authorization header`), "server-unauthorized", "server files", "headers"},
	"401, own header": {func(m *machine) {
		m.config = "mcpServers:\n  files: {url: \"http://127.0.0.1:9/mcp\", headers: {authorization: Bearer 0123456789, X-Other: a}}\n"
		down(`server "files" does not accept the credentials (401): check the Authorization header`)(m)
	}, "server-unauthorized", "server files", "put it into mcpServers.files.headers.authorization. Where that is ${secret:NAME}, run: weir secret set NAME"},
	"401, other header": {func(m *machine) {
		m.config = "mcpServers:\n  files: {url: \"http://127.0.0.1:9/mcp\", headers: {X-Api-Key: \"0123456789\"}}\n"
		down(`server "files" does not accept the credentials (401): check the Authorization header`)(m)
	}, "server-unauthorized", "server files", "it refuses the credential in mcpServers.files.headers.X-Api-Key (401)"},
	"sign-in, own header": {func(m *machine) {
		m.config = "mcpServers:\n  files: {url: \"http://127.0.0.1:9/mcp\", headers: {Authorization: Bearer 0123456789}}\n"
		m.servers[0].State, m.servers[0].Error = "sign_in", `the server "files" needs a sign-in`
	}, "server-unauthorized", "server files", "mcpServers.files.headers.Authorization"},
	"sign-in": {func(m *machine) {
		m.servers[0].State, m.servers[0].Error = "sign_in", `the server "files" needs a sign-in: run weir login files`
	}, "server-sign-in", "server files", "Run: weir login files"},
	"TLS":     {down(`server "files": tls: failed to verify certificate: x509: certificate signed by unknown authority`), "server-tls", "server files", "SSL_CERT_FILE"},
	"DNS":     {down(`server "files": dial tcp: lookup mcp.example: no such host`), "server-dns", "server files", "VPN"},
	"refused": {down(`server "files": dial tcp 127.0.0.1:9: connect: connection refused`), "server-unreachable", "server files", "host and port"},
	"other":   {down(`server "files": it is Tuesday`), "server-failed", "server files", "Tuesday"},
	"proxy":   {func(m *machine) { m.env["HTTP_PROXY"] = "http://proxy:3128" }, "server-proxy", "proxy", "NO_PROXY"},

	"broken schema": {func(m *machine) {
		m.catalog = []CatalogFinding{{"files", "schema_invalid", "read", "type must be a string"}}
	}, "schema-broken", "server files", "type must be"},
	"twice": {func(m *machine) {
		m.catalog = []CatalogFinding{{"files", "duplicate", "read", "the first one stays"}}
	}, "schema-twice", "server files", "read"},
	"override": {func(m *machine) {
		m.catalog = []CatalogFinding{{"files", "override", "gone", "mcpServers.files.overrides.gone: the server lists no such tool"}}
	}, "schema-override", "server files", "overrides.gone"},
	"long name":           {func(m *machine) { m.listed = []string{strings.Repeat("x", 60)} }, "schema-name", "tool " + strings.Repeat("x", 60), "64 characters"},
	"rule without a tool": {func(m *machine) { m.labels = &flow.Listing{Unused: []string{"flow.sinks[2]"}} }, "flow-unused", "flow.sinks[2]", "weir flow ls"},

	"port taken": {func(m *machine) {
		m.listens = []string{"127.0.0.1:8088"}
		m.programs["ss -ltnpH sport = :8088"] = `LISTEN 0 511 127.0.0.1:8088 0.0.0.0:* users:(("node",pid=4242,fd=21))`
	}, "gateway-port", "127.0.0.1:8088", "node (process 4242)"},
	"port taken, lsof": {func(m *machine) {
		m.listens = []string{"127.0.0.1:8088"}
		m.programs["lsof -nP -iTCP:8088 -sTCP:LISTEN"] = "COMMAND PID USER\nPython 77 ann 3u IPv4\n"
	}, "gateway-port", "127.0.0.1:8088", "Python (process 77)"},
	"port taken, unknown": {func(m *machine) { m.listens = []string{"127.0.0.1:8088"} }, "gateway-port", "127.0.0.1:8088", "another program"},
	"apart":               {func(m *machine) { m.running, m.apart = "0.1.0", "not acknowledged for 42s" }, "gateway-apart", "http://127.0.0.1:8088/mcp", "whose disk was full"},
	"other version":       {func(m *machine) { m.running = "0.0.9" }, "gateway-version", "http://127.0.0.1:8088/mcp", "0.0.9"},
	"clock":               {func(m *machine) { m.now = time.Unix(0, 0) }, "gateway-clock", "clock", "1970"},
	"record":              {func(m *machine) { m.records = []string{"/r.json"} }, "gateway-stale", "/r.json", "ended"},

	"client's file is broken": {cursor(`{"mcpServers": `), "client-unreadable", "client cursor", "/home/ann/.cursor/mcp.json"},
	"no client":               {cursor(`{}`), "client-none", "clients", "weir connect"},
	"weir has moved":          {cursor(`{"mcpServers":{"weir":{"command":"/opt/weir","args":["attach","--client","cursor"]}}}`), "client-path", "client cursor", "/opt/weir"},
	"old port":                {cursor(`{"mcpServers":{"weir":{"url":"http://localhost:9999/mcp"}}}`), "client-port", "client cursor", "localhost:9999"},
	"two entries":             {cursor(`{"mcpServers":{"weir":{"command":"weir","args":["attach"]},"w2":{"command":"weir","args":["attach"]}}}`), "client-twice", "client cursor", "2 entries"},

	"keyring": {func(m *machine) { m.keyring = errors.New("it did not answer within 3s") }, "keyring-silent", "keyring", "3s"},

	"store away":    {func(m *machine) { m.store = errors.New("no connection") }, "store-away", "store", "no connection"},
	"store refuses": {func(m *machine) { m.store, m.refused = errors.New("wrong password"), true }, "store-refused", "store", "wrong password"},

	"service down":     {func(m *machine) { m.service = Service{Installed: true, Enabled: true} }, "service-off", "service", "weir service start"},
	"service disabled": {func(m *machine) { m.service = Service{Installed: true, Running: true, Lingers: true} }, "service-off", "service", "weir service install"},
	"no lingering":     {func(m *machine) { m.service = Service{Installed: true, Enabled: true, Running: true} }, "service-linger", "service", "loginctl"},
	"new folder in PATH": {func(m *machine) {
		m.service = Service{Installed: true, Enabled: true, Running: true, Lingers: true, Path: "/usr/bin"}
	}, "service-path", "service", "/usr/local/bin"},

	"disk full":   {func(m *machine) { m.free = 1 << 20 }, "disk-full", "/home/ann/.local/state/weir", "1 MB"},
	"disk filled": {func(m *machine) { m.free = 100 << 20 }, "disk-low", "/home/ann/.local/state/weir", "100 MB"},
}

// down returns a break of the server files by an error, with 25 lines of stderr.
func down(text string) func(*machine) {
	return func(m *machine) {
		m.servers[0] = Server{Name: "files", State: "failed", Error: text}
		for i := range 25 {
			m.servers[0].Stderr = append(m.servers[0].Stderr, "line "+string(rune('0'+(i+1)/10))+string(rune('0'+(i+1)%10)))
		}
	}
}

// cursor returns a break of the file of Cursor.
func cursor(text string) func(*machine) {
	return func(m *machine) { m.files["/home/ann/.cursor/mcp.json"] = file{text, 0o600} }
}

func dockered(m *machine, out string) {
	m.config = "mcpServers:\n  files: {command: docker, args: [run, x]}\n"
	m.files["/usr/bin/docker"] = file{"", 0o755}
	m.programs["/usr/bin/docker version --format {{.Server.Version}}"] = out
}

// TestBroken: each fault is found by its id, at its thing, with an owner and a fix.
func TestBroken(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"client-lost": true} // TestLost
	for name, c := range brokenMachines {
		seen[c.id] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := healthy()
				c.breaks(m)
				list := Run(t.Context(), m.environment(), m.setup(t))
				at := slices.IndexFunc(list, func(f Finding) bool { return f.ID == c.id })
				if at < 0 {
					t.Fatalf("no finding %s in %+v", c.id, list)
				}
				f := list[at]
				if all := strings.Join(append(f.Lines, f.Text, f.Fix), "\n"); f.Thing != c.thing || !strings.Contains(all, c.text) || f.Owner == "" || f.Fix == "" || f.Text == "" {
					t.Errorf("%+v, want %q about %q", f, c.text, c.thing)
				}
				if len(f.Lines) > lastLines {
					t.Errorf("%d lines", len(f.Lines))
				}
				if Failed(list) != slices.ContainsFunc(list, func(f Finding) bool { return f.Level == Fail }) {
					t.Error("Failed disagrees")
				}
			})
		})
	}
	for _, k := range kinds {
		if !seen[k.ID] {
			t.Errorf("no machine has %s", k.ID)
		}
	}
}

// TestKinds: every id that the source names is in the table, once, with its texts.
func TestKinds(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, k := range kinds {
		group, _, _ := strings.Cut(k.ID, "-")
		if known[k.ID] || !slices.Contains(groups, group) || k.Owner == "" || k.Meaning == "" || k.Fix == "" || (k.Level != Warn && k.Level != Fail) {
			t.Errorf("%+v", k)
		}
		known[k.ID] = true
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`found\("([^"]+)"`)
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			if !known[m[1]] {
				t.Errorf("%s: %s is not in the table", name, m[1])
			}
		}
	}
	for _, f := range faults {
		if !known[f.id] {
			t.Errorf("%s is not in the table", f.id)
		}
	}
}

// TestRepair: file modes and stale records are mended, and then not found any more.
func TestRepair(t *testing.T) {
	t.Parallel()
	m := healthy()
	m.secrets = []string{"/s"}
	m.files["/s"], m.files["/r.json"] = file{"", 0o644}, file{"{}", 0o600}
	m.records = []string{"/r.json"}
	repaired := 0
	for _, f := range Run(t.Context(), m.environment(), m.setup(t)) {
		if f.Repair == nil {
			continue
		}
		repaired++
		if !strings.Contains(f.Repair.Show, f.Thing) {
			t.Errorf("%q does not name %s", f.Repair.Show, f.Thing)
		}
		if _, err := f.Repair.Do(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, there := m.files["/r.json"]; repaired != 2 || there || m.files["/s"].mode != 0o600 {
		t.Errorf("%d repairs: %+v", repaired, m.files)
	}
}

// TestLost: an entry that a client has written away is found by the journal and put back. After
// weir disconnect, or an undo, it is not missed.
func TestLost(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	name := filepath.Join(home, ".cursor", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	const before = `{"mcpServers": {"own": {"command": "own"}}}`
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(before)
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithCancel(t.Context())
	cancel() // the second look at a file is not waited for
	env := System("linux", func(string) (string, bool) { return "", false })
	s := Setup{Journal: j, Only: "cursor", Machine: clients.Environment{
		OS: "linux", Home: home, Exists: func(p string) bool { _, err := os.Stat(p); return err == nil },
	}}
	look := func() Finding {
		t.Helper()
		list := Run(t.Context(), env, s)
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		return list[0]
	}
	c, _ := clients.ByID("cursor")
	op := j.Begin("connect", "cursor")
	path := splice.Path{"mcpServers", "weir"}
	if _, err := op.Edit(name, splice.JSON, []journal.Edit{{Path: path, Value: c.Entry(clients.How{Command: []string{"/bin/sh"}})}}); err != nil {
		t.Fatal(err)
	}
	// The entry of weir is known by its program, which is not there.
	if f := look(); f.ID != "client-none" {
		t.Fatalf("before: %+v", f)
	}
	if _, err := op.Apply(soon); err != nil {
		t.Fatal(err)
	}
	s.How = clients.How{}
	write(before)
	if f := look(); f.ID != "client-none" {
		t.Fatalf("an entry that does not start weir is missed: %+v", f)
	}
	op = j.Begin("connect", "cursor")
	if _, err := op.Edit(name, splice.JSON, []journal.Edit{{Path: path, Value: c.Entry(clients.How{Command: []string{"/opt/weir"}})}}); err != nil {
		t.Fatal(err)
	}
	done, err := op.Apply(soon)
	if err != nil {
		t.Fatal(err)
	}
	if f := look(); f.ID != "client-path" {
		t.Fatalf("connected: %+v", f)
	}
	write(before)
	f := look()
	if f.ID != "client-lost" || f.Repair == nil {
		t.Fatalf("lost: %+v", f)
	}
	if n, err := f.Repair.Do(soon); err != nil || n == 0 {
		t.Fatal(err)
	}
	if f := look(); f.ID != "client-path" {
		t.Fatalf("put back: %+v", f)
	}
	if _, err := j.Undo(soon, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Undo(soon, done.N); err != nil {
		t.Fatal(err)
	}
	if f := look(); f.ID != "client-none" {
		t.Fatalf("undone: %+v", f)
	}
}

// TestOnly: a name limits the report, and an unknown one is an error.
func TestOnly(t *testing.T) {
	t.Parallel()
	m := healthy()
	m.config += "  other: {command: nowhere}\n"
	m.servers = append(m.servers, Server{Name: "other", State: "failed", Error: "x"})
	m.only = "files"
	s := m.setup(t)
	if list := Run(t.Context(), m.environment(), s); Failed(list) || len(list) != 2 {
		t.Errorf("%+v", list)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if s.Only = "cursor"; s.Check() != nil {
		t.Error("a client is no name")
	}
	if s.Only = "nothing"; s.Check() == nil {
		t.Error("nothing is a name")
	}
}

// TestManyLate: servers that are all still starting are one finding, of nobody's server.
func TestManyLate(t *testing.T) {
	t.Parallel()
	m := healthy()
	m.servers = nil
	for _, name := range []string{"a", "b", "c"} {
		m.servers = append(m.servers, Server{Name: name, State: "starting"})
	}
	m.servers = append(m.servers, Server{Name: "d", State: "ready", Tools: 1})
	var ids []string
	for _, f := range Run(t.Context(), m.environment(), m.setup(t)) {
		if strings.HasPrefix(f.ID, "server-") {
			ids = append(ids, f.ID+" "+f.Owner+" "+f.Text)
		}
	}
	if want := []string{"server-ok  1 tools", "server-starting " + ownMachine + " a, b, c are still starting"}; !slices.Equal(ids, want) {
		t.Errorf("%q, want %q", ids, want)
	}
}

// TestPatience: a single server may take longer than a whole report.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := healthy()
		s := m.setup(t)
		s.Only = "files"
		s.Probe = func(ctx context.Context) (Report, error) {
			time.Sleep(20 * time.Second)
			return Report{Servers: []Server{{Name: "files", State: "ready", Tools: 2}}}, ctx.Err()
		}
		list := Run(t.Context(), m.environment(), s)
		if Failed(list) || !slices.ContainsFunc(list, func(f Finding) bool { return f.ID == "server-ok" }) {
			t.Errorf("%+v", list)
		}
	})
}

// TestLate: checks that hang do not hold up the report.
func TestLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := healthy()
		env, s := m.environment(), m.setup(t)
		hang := make(chan struct{})
		defer close(hang)
		free := env.Free
		env.Free = func(folder string) (uint64, error) { <-hang; return free(folder) }
		s.Probe = func(context.Context) (Report, error) { <-hang; return Report{}, nil }
		began := time.Now()
		list := Run(t.Context(), env, s)
		var late []string
		for _, f := range list {
			if f.ID == "doctor-late" {
				late = append(late, f.Thing)
			}
		}
		if want := []string{"server", "schema", "flow", "gateway", "disk"}; !slices.Equal(late, want) || time.Since(began) > limit {
			t.Errorf("%v after %s, want %v", late, time.Since(began), want)
		}
	})
}

// TestExcepted: the forms of NO_PROXY that have this machine.
func TestExcepted(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{
		"": false, "example.com": false, "127.0.0.1": true, "a, 127.0.0.1:8088": true, "*": true, "127.0.0.0/8": true, "10.0.0.0/8": false,
	} {
		if excepted(list) != want {
			t.Errorf("%q: %t", list, !want)
		}
	}
}

// TestSystem: the functions of this machine keep their promises.
func TestSystem(t *testing.T) {
	t.Parallel()
	env := System("linux", os.LookupEnv)
	if free, err := env.Free(t.TempDir()); err != nil || free == 0 {
		t.Errorf("%d, %v", free, err)
	}
	if _, err := env.ReadFile(t.TempDir()); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a folder was read: %v", err)
	}
}
