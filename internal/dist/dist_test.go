package dist

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/macho"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// release is one with a small program for each platform.
func release() *Release {
	r := &Release{Version: "1.2.3-rc.4", Time: time.Unix(1_795_345_201, 999), License: []byte("the licence\n")}
	for name := range platforms {
		goos, goarch, _ := strings.Cut(name, "/")
		r.Binaries = append(r.Binaries, Binary{OS: goos, Arch: goarch, Data: []byte("program for " + name), info: &debug.BuildInfo{
			GoVersion: "go1.26.0 X:none",
			Deps: []*debug.Module{
				{Path: "github.com/z/last", Version: "v1.0.0+incompatible", Sum: "h1:z"},
				{Path: "github.com/a/replaced", Version: "v0.9.0", Replace: &debug.Module{Path: "github.com/b/fork", Version: "v2.0.0"}},
			},
		}})
	}
	return r
}

func all(t *testing.T, r *Release) map[string][]byte {
	t.Helper()
	files, err := r.All()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string][]byte{}
	for _, f := range files {
		byName[f.Name] = f.Data
	}
	return byName
}

// TestSameBytes: the order in which binaries are named changes nothing, and neither does time.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	first, other := release(), release()
	slices.Reverse(other.Binaries)
	want, got := all(t, first), all(t, other)
	if len(want) != 7+6+2+6 || len(got) != len(want) {
		t.Errorf("%d and %d files", len(want), len(got))
	}
	for name := range want {
		if !bytes.Equal(want[name], got[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// untar returns the files of a tarball with their modes.
func untar(t *testing.T, data []byte, at time.Time) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zipped); ; {
		head, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if !head.ModTime.Equal(at.Truncate(time.Second)) || head.Uname != "" || head.Uid != 0 {
			t.Errorf("%s: %+v", head.Name, head)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("%s %o", head.Name, head.Mode)] = string(text)
	}
}

// unzip returns the files of a zip with their modes.
func unzip(t *testing.T, data []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		open, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(open)
		if err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("%s %o", f.Name, f.Mode().Perm())] = string(text)
	}
	return files
}

func TestNPM(t *testing.T) {
	t.Parallel()
	r := release()
	files := all(t, r)
	main := untar(t, files["npm/weir-mcp-1.2.3-rc.4.tgz"], r.Time)
	var m struct {
		Name, Version, MCPName string
		Bin                    map[string]string
		Optional               map[string]string `json:"optionalDependencies"`
		Scripts                map[string]string
	}
	if err := json.Unmarshal([]byte(main["package/package.json 644"]), &m); err != nil {
		t.Fatal(err)
	}
	if m.Name != "weir-mcp" || m.Version != "1.2.3-rc.4" || m.MCPName != "io.github.weir-mcp/weir" || m.Scripts != nil || len(m.Optional) != 6 {
		t.Errorf("%+v", m)
	}
	for _, command := range []string{"weir", "weir-mcp"} {
		if _, ok := main["package/"+m.Bin[command]+" 755"]; !ok {
			t.Errorf("%s starts %q, which is not there", command, m.Bin[command])
		}
	}
	for name, wanted := range m.Optional {
		short := strings.TrimPrefix(name, "@weir-mcp/")
		of := untar(t, files["npm/weir-mcp-"+short+"-1.2.3-rc.4.tgz"], r.Time)
		var p struct {
			Name, Version string
			OS, CPU       []string
			Bin           map[string]string
		}
		if err := json.Unmarshal([]byte(of["package/package.json 644"]), &p); err != nil {
			t.Fatal(err)
		}
		if p.Name != name || p.Version != wanted || len(p.OS) != 1 || len(p.CPU) != 1 || p.OS[0]+"-"+p.CPU[0] != short || p.Bin != nil {
			t.Errorf("%s: %+v", name, p)
		}
		file := "package/bin/weir 755"
		if p.OS[0] == "win32" {
			file = "package/bin/weir.exe 755"
		}
		if !strings.HasPrefix(of[file], "program for ") || of["package/LICENSE 644"] != "the licence\n" {
			t.Errorf("%s: %q", name, of)
		}
	}
}

func TestWheels(t *testing.T) {
	t.Parallel()
	count := 0
	for name, data := range all(t, release()) {
		if !strings.HasPrefix(name, "pypi/") {
			continue
		}
		count++
		files := unzip(t, data)
		const info = "weir_mcp-1.2.3rc4.dist-info/"
		program := files["weir_mcp-1.2.3rc4.data/scripts/weir 755"]
		if strings.Contains(name, "-win_") {
			program = files["weir_mcp-1.2.3rc4.data/scripts/weir.exe 755"]
		}
		if !strings.HasPrefix(program, "program for ") || !strings.Contains(files[info+"METADATA 644"], "\nName: weir-mcp\nVersion: 1.2.3rc4\n") {
			t.Errorf("%s: %q", name, files)
		}
		// Each tag of the file's name is in WHEEL.
		tags := strings.Split(strings.TrimSuffix(name[strings.Index(name, "none-")+5:], ".whl"), ".")
		for _, tag := range tags {
			if !strings.Contains(files[info+"WHEEL 644"], "\nTag: py3-none-"+tag+"\n") {
				t.Errorf("%s: WHEEL has no %s", name, tag)
			}
		}
		rows, err := csv.NewReader(strings.NewReader(files[info+"RECORD 644"])).ReadAll()
		if err != nil || len(rows) != len(files) {
			t.Errorf("%s: %d rows for %d files, %v", name, len(rows), len(files), err)
		}
		for _, row := range rows {
			text, ok := files[row[0]+" 644"]
			if !ok {
				text, ok = files[row[0]+" 755"]
			}
			sum := sha256.Sum256([]byte(text))
			want := []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(text))}
			if row[0] == info+"RECORD" {
				want = []string{row[0], "", ""}
			}
			if !ok || !slices.Equal(row, want) {
				t.Errorf("%s: RECORD has %q, want %q", name, row, want)
			}
		}
	}
	if count != 6 {
		t.Errorf("%d wheels", count)
	}
}

func TestPythonVersion(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]string{"0.1.0": "0.1.0", "1.2.3-rc.4": "1.2.3rc4", "1.2.3-alpha.0": "1.2.3a0", "1.2.3-beta.10": "1.2.3b10"} {
		if got := pythonVersion(v); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
}

// TestBundle: each platform's command is in the bundle and may run, and server.json has the
// bundle's hash.
func TestBundle(t *testing.T) {
	t.Parallel()
	packages := all(t, release())
	files := unzip(t, packages["weir.mcpb"])
	var m mcpbManifest
	if err := json.Unmarshal([]byte(files["manifest.json 644"]), &m); err != nil {
		t.Fatal(err)
	}
	systems := m.Compatibility["platforms"]
	if m.Version != "0.3" || m.Server.Type != "binary" || len(systems) != 3 || len(m.Server.Config.Platforms) != 3 {
		t.Errorf("%+v", m)
	}
	for _, system := range systems {
		command := strings.TrimPrefix(m.Server.Config.Platforms[system]["command"], "${__dirname}/")
		if _, ok := files[command+" 755"]; !ok {
			t.Errorf("%s: %q is not there", system, command)
		}
	}
	for _, file := range []string{"server/weir-linux-amd64 755", "server/weir-linux-arm64 755"} {
		if !strings.HasPrefix(files[file], "program for linux/") {
			t.Errorf("%s: %q", file, files[file])
		}
	}
	if args := strings.Join(m.Server.Config.Args, " "); m.UserConfig["config"]["required"] != true || args != "attach --config ${user_config.config}" {
		t.Errorf("%q, %+v", args, m)
	}
	var s registryServer
	if err := json.Unmarshal(packages["server.json"], &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != "io.github.weir-mcp/weir" || len(s.Description) > 100 || len(s.Packages) != 3 {
		t.Errorf("%+v", s)
	}
	if got := s.Packages[2]; got.SHA256 != fmt.Sprintf("%x", sha256.Sum256(packages["weir.mcpb"])) || got.Identifier != "https://github.com/weir-mcp/weir/releases/download/v1.2.3-rc.4/weir.mcpb" {
		t.Errorf("%+v", got)
	}
	if s.Packages[1].Version != "1.2.3rc4" {
		t.Errorf("%+v", s.Packages[1])
	}
	for _, p := range s.Packages[:2] {
		if a := p.Arguments; len(a) != 2 || a[0].Value != "attach" || a[1].Name != "--config" || !a[1].Required {
			t.Errorf("%s: %+v", p.Type, a)
		}
	}
}

// TestUniversal: Go's reader of universal programs finds both, at their offsets.
func TestUniversal(t *testing.T) {
	t.Parallel()
	// The smallest head that debug/macho reads: 64 bits, an executable, no commands.
	program := func(cpu, sub uint32, size int) []byte {
		out := make([]byte, size)
		for i, v := range []uint32{0xfeedfacf, cpu, sub, 2} {
			out[4*i], out[4*i+1], out[4*i+2], out[4*i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		}
		return out
	}
	macs := []Binary{
		{OS: "darwin", Arch: "amd64", Data: program(0x01000007, 3, 20_001)},
		{OS: "darwin", Arch: "arm64", Data: program(0x0100000c, 0, 777)},
	}
	out := universal(macs)
	f, err := macho.NewFatFile(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	for i, arch := range f.Arches {
		if !bytes.Equal(out[arch.Offset:arch.Offset+arch.Size], macs[i].Data) || arch.Offset%(1<<14) != 0 {
			t.Errorf("%+v", arch.FatArchHeader)
		}
	}
	if f.Arches[0].Cpu != macho.CpuAmd64 || f.Arches[1].Cpu != macho.CpuArm64 {
		t.Errorf("%v, %v", f.Arches[0].Cpu, f.Arches[1].Cpu)
	}
}

func TestBOM(t *testing.T) {
	t.Parallel()
	var b bom
	if err := json.Unmarshal(all(t, release())["sbom/weir_1.2.3-rc.4_linux_arm64.cdx.json"], &b); err != nil {
		t.Fatal(err)
	}
	refs := []string{}
	for _, c := range b.Components {
		refs = append(refs, c.PURL)
	}
	want := []string{"pkg:golang/github.com/b/fork@v2.0.0", "pkg:golang/github.com/z/last@v1.0.0%2Bincompatible", "pkg:golang/std@1.26.0"}
	if !slices.Equal(refs, want) || !slices.Equal(b.Dependencies[0].On, want) {
		t.Errorf("%q", refs)
	}
	self := b.Metadata.Component
	if self.PURL != "pkg:golang/github.com/weir-mcp/weir@v1.2.3-rc.4" || self.Hashes[0]["content"] != fmt.Sprintf("%x", sha256.Sum256([]byte("program for linux/arm64"))) {
		t.Errorf("%+v", self)
	}
	if b.Metadata.Time != "2026-11-22T11:00:01Z" || len(b.Serial) != len("urn:uuid:")+36 || b.Serial[9+14] != '8' {
		t.Errorf("%s, %s", b.Metadata.Time, b.Serial)
	}
}

// TestCheck: what cannot be published everywhere is refused before anything is made.
func TestCheck(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Release){
		`version "v1.2.3"`:        func(r *Release) { r.Version = "v1.2.3" },
		`version "1.2"`:           func(r *Release) { r.Version = "1.2" },
		`version "1.2.3-4-gabc"`:  func(r *Release) { r.Version = "1.2.3-4-gabc" },
		`version "01.2.3"`:        func(r *Release) { r.Version = "01.2.3" },
		"before 1980":             func(r *Release) { r.Time = time.Time{} },
		"at least one binary":     func(r *Release) { r.Binaries = nil },
		"two binaries for linux/": func(r *Release) { r.Binaries = append(r.Binaries, Binary{OS: "linux", Arch: "amd64"}) },
	} {
		r := release()
		change(r)
		if _, err := r.All(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r := release()
	r.Binaries = slices.DeleteFunc(r.Binaries, func(b Binary) bool { return b.OS == "darwin" })
	if got := r.Missing(); !slices.Equal(got, []string{"darwin/amd64", "darwin/arm64"}) {
		t.Errorf("%q", got)
	}
}
