package bundle_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/setup/bundle"
)

// A member is a file of a bundle that a test makes.
type member struct {
	name, text string
	mode       fs.FileMode
}

// pack writes a bundle and returns its path.
func pack(t *testing.T, after []byte, members ...member) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		if m.mode == 0 {
			m.mode = 0o644
		}
		header.SetMode(m.mode)
		out, err := w.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(m.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.mcpb")
	if err := os.WriteFile(path, append(b.Bytes(), after...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func signature(size, says int) []byte {
	out := binary.LittleEndian.AppendUint32([]byte("MCPB_SIG_V1"), uint32(says))
	return append(append(out, bytes.Repeat([]byte("PK\x05\x06"), size/4)...), "MCPB_SIG_END"...)
}

const node = `{"manifest_version":"0.3","name":"Weather, of course","version":"1.2.3","server":{"type":"node","entry_point":"server/index.js","mcp_config":{"command":"node","args":["${__dirname}/server/index.js"]}}}`

// fixed is node with a name that a folder can have.
var fixed = strings.Replace(node, "Weather, of course", "weather", 1)

func TestOpen(t *testing.T) {
	index := member{name: "server/index.js", text: "console.log(1)"}
	good := member{name: "manifest.json", text: fixed}
	many := []member{good}
	for i := range 20_000 {
		many = append(many, member{name: fmt.Sprintf("f%d", i)})
	}
	for _, tc := range []struct {
		name    string
		after   []byte
		members []member
		want    string
	}{
		{"good", nil, []member{good, index, {name: "bin/", mode: fs.ModeDir | 0o755}}, ""},
		{"signed", signature(4000, 4000), []member{good, index}, ""},
		{"signed at length", signature(200_000, 200_000), []member{good, index}, ""},
		{"a damaged signature", signature(4000, 3999), []member{good, index}, "its signature is damaged"},
		{"a slip", nil, []member{good, {name: "../../.bashrc", text: "x"}}, "would leave the bundle's folder"},
		{"an absolute path", nil, []member{good, {name: "/etc/passwd", text: "x"}}, "would leave the bundle's folder"},
		{"a slip of Windows", nil, []member{good, {name: `..\x`, text: "x"}}, "would leave the bundle's folder"},
		{"a drive", nil, []member{good, {name: "C:/x", text: "x"}}, "would leave the bundle's folder"},
		{"a link", nil, []member{good, {name: "server", text: "/etc", mode: fs.ModeSymlink | 0o777}}, "is a link"},
		{"twice", nil, []member{good, index, {name: "Server/INDEX.js", text: "x"}}, "is in it twice"},
		{"a bomb", nil, []member{good, {name: "zeros", text: strings.Repeat("\x00", 2<<20)}}, "compressed more than 200 times"},
		{"too many files", nil, many, "it has 20001 files"},
		{"no manifest", nil, []member{index}, "has no manifest.json"},
		{"a manifest of the future", nil, []member{{name: "manifest.json", text: strings.Replace(fixed, "0.3", "1.0", 1)}}, "weir knows 0.1 to 0.4"},
		{"no name", nil, []member{{name: "manifest.json", text: strings.Replace(fixed, "weather", "..", 1)}}, "no name and version"},
		{"an entry point elsewhere", nil, []member{{name: "manifest.json", text: strings.Replace(fixed, `"server/index.js"`, `"../x"`, 1)}}, "entry_point is not in the bundle"},
		{"another type", nil, []member{{name: "manifest.json", text: strings.Replace(fixed, `"node"`, `"shell"`, 1)}}, "node, python, binary and uv"},
		{"no JSON", nil, []member{{name: "manifest.json", text: "{"}}, "or it is not JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bundle.Open(pack(t, tc.after, tc.members...))
			if err != nil {
				if tc.want == "" || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("%v, want %q", err, tc.want)
				}
				return
			}
			defer b.Close()
			if tc.want != "" {
				t.Fatalf("it is opened, want %q", tc.want)
			}
			if b.Signed != (tc.after != nil) {
				t.Errorf("signed: %v", b.Signed)
			}
			into := filepath.Join(t.TempDir(), "data")
			for range 2 { // The second time it is there.
				dir, err := b.Extract(into)
				if err != nil || dir != filepath.Join(into, "weather-1.2.3-"+b.SHA256[:8]) {
					t.Fatalf("%s, %v", dir, err)
				}
				data, err := os.ReadFile(filepath.Join(dir, "server", "index.js"))
				if err != nil || string(data) != index.text {
					t.Errorf("%q, %v", data, err)
				}
			}
			if left, err := filepath.Glob(filepath.Join(into, ".unpack-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "b.mcpb")
	if err := os.WriteFile(path, []byte("no zip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Open(path); err == nil || !strings.Contains(err.Error(), "b.mcpb: it is no bundle") {
		t.Errorf("%v", err)
	}
}

// TestModes: programs can be run, and nothing is for others.
func TestModes(t *testing.T) {
	manifest := `{"dxt_version":"0.1","name":"b","version":"1","server":{"type":"binary","entry_point":"bin/b"}}`
	b, err := bundle.Open(pack(t, nil, member{name: "manifest.json", text: manifest, mode: 0o666}, member{name: "bin/b", text: "x"}, member{name: "run", text: "x", mode: fs.ModeSetuid | 0o777}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir, err := b.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"manifest.json": 0o600, "bin/b": 0o700, "run": 0o700, "bin": fs.ModeDir | 0o700} {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// folder writes a manifest as an extension of Claude Desktop has it, and reads it.
func folder(t *testing.T, text string) *bundle.Manifest {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := bundle.ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCommand(t *testing.T) {
	const head = `{"manifest_version":"0.4","name":"files","version":"1.0.0",`
	const config = head + `"user_config":{
		"dirs":{"type":"directory","multiple":true,"required":true,"default":["${HOME}/a","${DESKTOP}"]},"key":{"type":"string","sensitive":true,"required":true,"default":"x"},
		"limit":{"type":"number","default":12345678901234567890},"loud":{"type":"boolean","default":false},"none":{"type":"string"}},
		"server":{"type":"node","entry_point":"i.js","mcp_config":{"command":"node","args":["${__dirname}${/}i.js","--dirs=${user_config.dirs}","${user_config.dirs}","${user_config.none}","--limit","${user_config.limit}","${user_config.loud}"],
		"env":{"KEY":"${user_config.key}","NONE":"${user_config.none}","AUTH":"Bearer ${user_config.key} ${env:HOME} $${HOME}","DOC":"${DOCUMENTS}|${DOWNLOADS}"},
		"platform_overrides":{"win32":{"command":"node.exe","args":["${__dirname}${/}w.js"],"env":{"DOC":"w"}}}}}}`
	linux := bundle.Place{OS: "linux", Home: "/home/me", Folders: map[string]string{"Documents": "/docs"}}
	windows := bundle.Place{OS: "windows", Home: `C:\me`}
	key := map[string][]string{"key": {"k"}}
	for _, tc := range []struct {
		name, manifest string
		place          bundle.Place
		answers        map[string][]string
		want           string
	}{
		{"defaults", config, linux, key, `{"command":"node","args":["/b/i.js","--dirs=/home/me/a,/home/me/Desktop","/home/me/a","/home/me/Desktop","--limit","12345678901234567890","false"],
			"env":{"AUTH":"Bearer ${secret:FILES_KEY} $${env:HOME} $/home/me","DOC":"/docs|/home/me/Downloads","KEY":"${secret:FILES_KEY}"}}`},
		{"answers", config, linux, map[string][]string{"key": {"k"}, "dirs": {"/x; rm", "${secret:OTHER}"}, "limit": {"5"}, "loud": {"true"}, "none": {"n"}},
			`{"command":"node","args":["/b/i.js","--dirs=/x; rm,$${secret:OTHER}","/x; rm","$${secret:OTHER}","n","--limit","5","true"],"env":{"AUTH":"Bearer ${secret:FILES_KEY} $${env:HOME} $/home/me","DOC":"/docs|/home/me/Downloads","KEY":"${secret:FILES_KEY}","NONE":"n"}}`},
		{"another system", config, windows, key, `{"command":"node.exe","args":["/b\\w.js"],"env":{"AUTH":"Bearer ${secret:FILES_KEY} $${env:HOME} $C:\\me","DOC":"w","KEY":"${secret:FILES_KEY}"}}`},
		{"no key", config, linux, nil, "files needs a value for key"},
		{"no number", config, linux, map[string][]string{"key": {"k"}, "limit": {"five"}}, "limit of files: a number is wanted"},
		{"no boolean", config, linux, map[string][]string{"key": {"k"}, "loud": {"yes"}}, "true or false is wanted"},
		{"two keys", config, linux, map[string][]string{"key": {"k", "l"}}, "has one value, not 2"},
		{"uv", head + `"server":{"type":"uv","entry_point":"src/server.py"}}`, linux, nil, `{"command":"uv","args":["run","--directory","/b","src/server.py"]}`},
		{"python", head + `"server":{"type":"python","entry_point":"main.py"}}`, windows, nil, `{"command":"python","args":["/b/main.py"]}`},
		{"binary", head + `"server":{"type":"binary","entry_point":"bin/x"}}`, linux, nil, `{"command":"/b/bin/x"}`},
		{"for others", head + `"compatibility":{"platforms":["darwin","win32"]},"server":{"type":"node","entry_point":"i.js"}}`, linux, nil, "files is for darwin, win32, and this is linux"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := folder(t, tc.manifest).Command("/b", tc.place, tc.answers)
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %s", err, tc.want)
				}
				return
			}
			var want bundle.Command
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatalf("%+v, want %s", c, tc.want)
			}
			if fmt.Sprintf("%q", c) != fmt.Sprintf("%q", want) {
				t.Errorf("%q\nwant\n%q", c, want)
			}
		})
	}
}

func TestQuestions(t *testing.T) {
	m := folder(t, `{"manifest_version":"0.2","name":"@a/files","version":"1","server":{"type":"node","entry_point":"i.js"},"user_config":{
		"zeta":{"type":"directory","title":"Folders","description":"Which","required":true,"multiple":true,"default":["${HOME}/x"]},"api-key":{"type":"string","sensitive":true,"default":"x"},"n":{"type":"number","default":3}}}`)
	got := fmt.Sprintf("%+v", m.Questions(bundle.Place{OS: "linux", Home: "/h"}))
	const want = "[{ID:zeta Secret: Title:Folders Description:Which Type:directory Required:true Multiple:true Default:[/h/x]}" +
		" {ID:api-key Secret:A_FILES_API_KEY Title: Description: Type:string Required:false Multiple:false Default:[]}" +
		" {ID:n Secret: Title: Description: Type:number Required:false Multiple:false Default:[3]}]"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, config := range []string{"[]", `{"a b":{}}`, `{"a":5}`, `{"a":{"type":1}}`} {
		dir := t.TempDir()
		text := `{"manifest_version":"0.2","name":"a","version":"1","server":{"type":"node","entry_point":"i.js"},"user_config":` + config + `}`
		if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bundle.ReadFolder(dir); err == nil {
			t.Errorf("%s is read", config)
		}
	}
}
