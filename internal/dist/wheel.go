package dist

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"strings"
)

//go:embed files/init.py
var pythonModule []byte

//go:embed files/pypi.md
var wheelReadme []byte

// wheels makes a wheel for each platform. The program is a script of the wheel, so that pip and uv
// put it on the PATH; weir-mcp, the name that uvx looks for, becomes it.
func (r *Release) wheels() ([]File, error) {
	var files []File
	for _, b := range r.Binaries {
		f, err := r.wheel(b)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func (r *Release) wheel(b Binary) (File, error) {
	name := "weir_mcp-" + pythonVersion(r.Version)
	info := name + ".dist-info/"
	tag := platforms[b.name()].wheel
	entries := []entry{
		{name: "weir_mcp/__init__.py", data: pythonModule},
		{name: "weir_mcp/__main__.py", data: []byte("from weir_mcp import main\n\nmain()\n")},
		{name: name + ".data/scripts/" + b.file(), data: b.Data, program: true},
		{name: info + "METADATA", data: r.metadata()},
		{name: info + "WHEEL", data: wheelFile(tag)},
		{name: info + "entry_points.txt", data: []byte("[console_scripts]\nweir-mcp = weir_mcp:main\n")},
		{name: info + "licenses/LICENSE", data: r.License},
	}
	record, err := wheelRecord(entries, info+"RECORD")
	if err != nil {
		return File{}, err
	}
	data, err := zipFile(append(entries, entry{name: info + "RECORD", data: record}), r.Time)
	return File{fmt.Sprintf("pypi/%s-py3-none-%s.whl", name, tag), data}, err
}

// pythonVersion turns a semantic version into the form of PEP 440: 1.2.3-rc.1 is 1.2.3rc1.
func pythonVersion(v string) string {
	return strings.NewReplacer("-alpha.", "a", "-beta.", "b", "-rc.", "rc").Replace(v)
}

// metadata returns the core metadata of version 2.4, which has licences by their SPDX names.
func (r *Release) metadata() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `Metadata-Version: 2.4
Name: %s
Version: %s
Summary: %s
License-Expression: Apache-2.0
License-File: LICENSE
Keywords: mcp,model-context-protocol,gateway,agents
Classifier: Environment :: Console
Classifier: Programming Language :: Go
Requires-Python: >=3.10
Project-URL: Source, %s
Project-URL: Changelog, %s/blob/main/CHANGELOG.md
Description-Content-Type: text/markdown

`, packageName, pythonVersion(r.Version), summary, repository, repository)
	b.Write(wheelReadme)
	return b.Bytes()
}

// wheelFile lists each tag that the compressed one stands for.
func wheelFile(tag string) []byte {
	text := "Wheel-Version: 1.0\nGenerator: weir-dist\nRoot-Is-Purelib: false\n"
	for one := range strings.SplitSeq(tag, ".") {
		text += "Tag: py3-none-" + one + "\n"
	}
	return []byte(text)
}

// wheelRecord lists every file with its hash and size, and itself without.
func wheelRecord(entries []entry, self string) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	for _, e := range entries {
		sum := sha256.Sum256(e.data)
		if err := w.Write([]string{e.name, "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(e.data))}); err != nil {
			return nil, err
		}
	}
	if err := w.Write([]string{self, "", ""}); err != nil {
		return nil, err
	}
	w.Flush()
	return out.Bytes(), w.Error()
}
