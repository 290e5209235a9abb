package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWholeResults: what a script gets is the whole result, whatever its length.
func TestWholeResults(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	s.tool("fake:echo")
	run := func(args ...string) finished { t.Helper(); return weir(t, append(args, "--url", s.url)...) }

	long := strings.Repeat("x", 5000)
	if out := run("call", "fake:echo", "--arg", "size=5000", "--raw").want(t, exitOK); out.stdout != long || out.stderr != "" {
		t.Errorf("--raw: %d bytes on stdout, stderr %q", len(out.stdout), out.stderr)
	}
	type whole struct {
		Content []struct{ Type, Text string }
		Status  string
	}
	for _, form := range [][]string{{"--json"}, {"-o", "json"}, {"--output=json"}} {
		out := run(append([]string{"call", "fake:echo", "--arg", "size=5000"}, form...)...).want(t, exitOK)
		if got := decode[whole](t, out.stdout); len(got.Content) != 1 || got.Content[0].Text != long || got.Status != "" {
			t.Errorf("%v: %.200s", form, out.stdout)
		}
	}
	if got := decode[struct{ StructuredContent json.RawMessage }](t, run("call", "odd", "--json").want(t, exitOK).stdout); len(got.StructuredContent) == 0 {
		t.Error("--json lost the structuredContent")
	}

	file := filepath.Join(t.TempDir(), "out.txt")
	if out := run("call", "echo", "--arg", "size=5000", "-o", file).want(t, exitOK, "4.9 KB written to "+file); out.stdout != "" {
		t.Errorf("-o FILE prints %.100q", out.stdout)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != long {
		t.Errorf("-o FILE wrote %d bytes, %v", len(data), err)
	}
	// The file is looked at before the tool runs.
	run("call", "echo", "--arg", "text=x", "-o", file).want(t, exitUsage, "it is there already; --force")
	run("call", "echo", "--arg", "text=new", "-o", file, "--force", "--json").want(t, exitOK)
	if data, err := os.ReadFile(file); err != nil || !json.Valid(data) || !strings.Contains(string(data), `"new"`) {
		t.Errorf("--json -o FILE wrote %.100s, %v", data, err)
	}

	// An error of the tool has an exit code of its own, and makes no file.
	none := filepath.Join(t.TempDir(), "none")
	for _, form := range [][]string{{}, {"--raw"}, {"-o", none}} {
		if out := run(append([]string{"call", "refuse", "--arg", "message=no luck"}, form...)...).want(t, exitTool, "no luck"); out.stdout != "" || !strings.Contains(out.stderr, "no luck") {
			t.Errorf("%v: an error on standard output: %+v", form, out)
		}
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("an error was written to a file")
	}
	run("call", "refuse", "--arg", "message=no luck", "--json").want(t, exitTool, `"isError": true`)
	// What a tool says in the words of the gateway is still the tool's.
	run("call", "refuse", "--arg", `message={"error":"ARGS_INVALID","message":"of the tool"}`, "--raw").want(t, exitTool, "of the tool")
	run("call", "echo", "--arg", "size=many", "--raw").want(t, exitUsage, "ARGS_INVALID", "It takes:")
	if e := decode[gatewayError](t, run("call", "echo", "--arg", "size=many", "--json").want(t, exitUsage).stdout); e.Code != "ARGS_INVALID" {
		t.Errorf("--json of a refused call: %+v", e)
	}

	run("call", "echo", "--raw", "--json").want(t, exitUsage, "keep one of them")
	run("call", "echo", "--raw", "--envelope").want(t, exitUsage)
	run("call", "echo", "--envelope", "-o", file).want(t, exitUsage, "--envelope and -o")
}

// TestShortIDs: a tool is named by as much of its id as is unique.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	id := s.tool("fake:echo")
	run := func(args ...string) finished { t.Helper(); return weir(t, append(args, "--url", s.url)...) }
	for _, name := range []string{id, "fake:echo", "echo", "ECHO"} {
		if out := run("call", name, "--arg", "text=hello").want(t, exitOK); out.stdout != "hello\n" {
			t.Errorf("%s: %+v", name, out)
		}
	}
	run("call", "ech").want(t, exitRefused, "HYDRATE_FAILED", id)
	run("show", "ech").want(t, exitRefused, `no tool "ech"`)
	// So does a gateway of the command's own.
	weir(t, "call", "echo", "--arg", "text=own", "--config", s.config).want(t, exitOK, "own\n")

	two := serve(t, "mcpServers:\n  a: {command: %FAKE%}\n  b: {command: %FAKE%}\n  c: {command: %FAKE%}\n  d: {command: %FAKE%}\n  e: {command: %FAKE%}\n  f: {command: %FAKE%}\n")
	for _, name := range strings.Split("abcdef", "") {
		two.tool(name + ":echo")
	}
	for _, command := range []string{"call", "show"} {
		out := weir(t, command, "echo", "--url", two.url).want(t, exitUsage, `"echo" may be one of 6 tools: a:echo#`, "e:echo#", ", …. Give the id")
		if strings.Contains(out.stderr, "f:echo") {
			t.Errorf("more than five candidates: %s", out.stderr)
		}
	}
	weir(t, "call", "b:echo", "--arg", "text=of b", "--url", two.url).want(t, exitOK, "of b\n")
}

// TestShow: a signature, the parameters, and a call that works as it is printed.
func TestShow(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	id := s.tool("fake:echo")
	out := weir(t, "show", "echo", "--url", s.url).want(t, exitOK, "echo(text", "text?: string", "size?: integer", id+" · server fake",
		"Returns its text, or size bytes.", "Parameters:", "Example:\n  weir call fake:echo\n")
	if strings.Contains(out.stdout, "\x1b") {
		t.Errorf("colours in a pipe: %q", out.stdout)
	}
	tool := decode[struct {
		ID          string
		InputSchema struct{ Properties map[string]any }
	}](t, weir(t, "show", "echo", "--json", "--url", s.url).want(t, exitOK).stdout)
	if tool.ID != id || tool.InputSchema.Properties["text"] == nil {
		t.Errorf("show --json: %+v", tool)
	}
	weir(t, "show", "echo", "--config", s.config).want(t, exitOK, "echo(text")
}

// TestCompletion: ids, parameters and values come from the gateway that runs; without one, nothing.
func TestCompletion(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	id := s.tool("fake:echo")
	complete := func(url string, args ...string) string {
		t.Helper()
		return weir(t, append([]string{"WEIR_URL=" + url, "__complete"}, args...)...).want(t, exitOK).stdout
	}
	if got := complete(s.url, "call", "fake:ec"); !strings.HasPrefix(got, "fake:echo\t") {
		t.Errorf("a short id: %q", got)
	}
	if got := complete(s.url, "show", id[:len(id)-3]); !strings.HasPrefix(got, id+"\t") {
		t.Errorf("a whole id: %q", got)
	}
	if got := complete(s.url, "call", "ec"); !strings.HasPrefix(got, "echo\t") {
		t.Errorf("a name: %q", got)
	}
	if got := complete(s.url, "call", "echo", "--arg", ""); !strings.Contains(got, "text=") || !strings.Contains(got, "size=") {
		t.Errorf("parameters: %q", got)
	}
	if got := complete(s.url, "call", "echo", "--arg", "text=x", "--arg", ""); strings.Contains(got, "text=") || !strings.Contains(got, "size=") {
		t.Errorf("parameters that are left: %q", got)
	}
	for _, args := range [][]string{{"call", ""}, {"call", "echo", "--arg", ""}} {
		if got := complete("http://127.0.0.1:1/mcp", args...); got != ":4\n" && got != ":6\n" {
			t.Errorf("without a gateway: %q", got)
		}
	}
}

// TestGet takes out what the gateway kept, whole.
func TestGet(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	s.tool("fake:echo")
	run := func(args ...string) finished { t.Helper(); return weir(t, append(args, "--url", s.url)...) }
	handle := handlePattern.FindString(run("call", "echo", "--arg", "size=300000").want(t, exitOK).stdout)
	if handle == "" {
		t.Fatal("nothing was held back")
	}
	if out := run("get", handle).want(t, exitOK); out.stdout != strings.Repeat("x", 300_000) || out.stderr != "" {
		t.Errorf("get: %d bytes, %q", len(out.stdout), out.stderr)
	}
	file := filepath.Join(t.TempDir(), "log")
	run("get", handle, "-o", file).want(t, exitOK, "293.0 KB written to "+file)
	if data, err := os.ReadFile(file); err != nil || len(data) != 300_000 {
		t.Errorf("get -o: %d bytes, %v", len(data), err)
	}
	run("get", handle, "-o", file).want(t, exitUsage, "it is there already")
	run("get", "art_nothing").want(t, exitRefused, `no artifact has the handle "art_nothing"`)
	// This folder's gateway is found without --url, and none is started for it.
	weir(t, "@"+filepath.Dir(s.config), "get", handle).want(t, exitOK, "xxx")
	lone := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:1\n"+oneFake)
	weir(t, "@"+filepath.Dir(lone), "get", handle).want(t, exitUsage, "handles end with the process")

	for _, header := range []string{"Content-Security-Policy", "Content-Disposition"} { // no page of others at this origin
		if resp := head(t, s.base+"/artifacts/"+handle); resp.Get(header) == "" {
			t.Errorf("no %s: %v", header, resp)
		}
	}
}

// TestArtifactsAreTheCallers: a handle works for the token that made the call, and is clean where
// results are.
func TestArtifactsAreTheCallers(t *testing.T) {
	t.Parallel()
	s := serve(t, tokens("ann:", "bob:")+"artifacts: {redact: true}\nfirewall: {threshold_chars: 10}\n"+oneFake)
	s.token = "ann"
	run := func(token string, args ...string) finished {
		t.Helper()
		return weir(t, append([]string{"WEIR_TOKEN=" + token, "WEIR_URL=" + s.url}, args...)...)
	}
	secret := "ghp_" + strings.Repeat("a1", 15)
	handle := handlePattern.FindString(run("ann", "call", "echo", "--arg", "text=the token "+secret+" of a server").want(t, exitOK).stdout)
	if out := run("ann", "get", handle).want(t, exitOK, "the token "); strings.Contains(out.stdout, secret) {
		t.Errorf("a secret in %s", out.stdout)
	}
	if out := run("ann", "call", "echo", "--arg", "text=the token "+secret, "--raw").want(t, exitOK, "the token "); strings.Contains(out.stdout, secret) {
		t.Errorf("a secret in %s", out.stdout)
	}
	run("bob", "get", handle).want(t, exitRefused, "no artifact has the handle")
	run("nobody", "get", handle).want(t, exitRefused, "does not know this token")
}

// TestServerFlag: --server reaches a server by name, and --agent is its old name.
func TestServerFlag(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	s.tool("fake:echo")
	for _, flag := range []string{"--server", "--agent"} {
		out := weir(t, "call", flag, "fake", "echo", "--arg", "size=3000", "--raw", "--url", s.url).want(t, exitOK)
		if len(out.stdout) != 3000 || out.stderr != "" {
			t.Errorf("%s: %d bytes, %q", flag, len(out.stdout), out.stderr)
		}
		weir(t, "@"+filepath.Dir(s.config), "call", flag, "fake", "echo", "--arg", "text=found").want(t, exitOK, "found\n")
	}
	if help := weir(t, "call", "--help").want(t, exitOK, "--server").stdout; strings.Contains(help, "--agent") {
		t.Error("the help shows --agent")
	}
}

// resultOf reads a result as weir call does.
func resultOf(t *testing.T, raw string) *toolResult {
	t.Helper()
	r := decode[toolResult](t, raw)
	r.raw = json.RawMessage(raw)
	return &r
}

// TestPieces: each kind of block becomes the bytes that it stands for.
func TestPieces(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n\x00\xff")
	data := base64.StdEncoding.EncodeToString(png)
	for name, c := range map[string]struct{ result, want string }{
		"texts":      {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\n"},{"type":"text","text":"c"}]}`, "a\nb\nc"},
		"image":      {`{"content":[{"type":"image","mimeType":"image/png","data":"` + data + `"}]}`, string(png)},
		"blob":       {`{"content":[{"type":"resource","resource":{"uri":"x","mimeType":"image/png","blob":"` + data + `"}}]}`, string(png)},
		"embedded":   {`{"content":[{"type":"resource","resource":{"uri":"x","text":"inside"}}]}`, "inside"},
		"link":       {`{"content":[{"type":"resource_link","name":"x","uri":"file:///x"}]}`, "file:///x"},
		"unknown":    {`{"content":[{"type":"hologram","n":12345678901234567890}]}`, `{"type":"hologram","n":12345678901234567890}`},
		"structured": {`{"content":[],"structuredContent":{"n":12345678901234567890}}`, `{"n":12345678901234567890}`},
		"nothing":    {`{"content":[]}`, ""},
	} {
		pieces, err := piecesOf(resultOf(t, c.result))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var out bytes.Buffer
		if err := writePieces(&out, pieces, false); err != nil || out.String() != c.want {
			t.Errorf("%s: %q, %v; want %q", name, out.String(), err, c.want)
		}
	}
	if _, err := piecesOf(resultOf(t, `{"content":[{"type":"image","mimeType":"image/png","data":"!"}]}`)); err == nil {
		t.Error("broken base64 was read")
	}
}

// TestSavedPictures: the first picture gets the file, further ones the next free numbers, texts go to
// standard output.
func TestSavedPictures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shot.png")
	image := func(text string) string {
		return `{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"}`
	}
	if err := os.WriteFile(filepath.Join(dir, "shot-2.png"), []byte("of before"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	a := &process{stdout: terminal{Writer: &stdout}, stderr: terminal{Writer: &stderr}}
	out, done, err := callOutput{form: formRaw, file: file}.open(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := done(out.write(resultOf(t, `{"content":[{"type":"text","text":"two of them"},`+image("one")+`,`+image("two")+`]}`))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"shot.png": "one", "shot-2.png": "of before", "shot-3.png": "two"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if stdout.String() != "two of them" || !strings.Contains(stderr.String(), "image/png, 3 B written to "+file) {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}

	// A screen gets no bytes of pictures, and the person is told what to do.
	stdout.Reset()
	a.stdout.width = 80
	out = &resultWriter{a: a, output: callOutput{form: formRaw}}
	err = out.write(resultOf(t, `{"content":[{"type":"text","text":"seen"},`+image("\x00\x01")+`]}`))
	if err == nil || !strings.Contains(err.Error(), "-o FILE") || exitCode(err) != exitUsage || stdout.String() != "seen\n" {
		t.Errorf("on a screen: %q, %v", stdout.String(), err)
	}
}
