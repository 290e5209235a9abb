package config

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// SavedServer is the server, and the namespace, whose tools are the saved programs.
const SavedServer = "weir"

// ResumeArgument is the argument that each saved program has in addition to its own: the run to go on with.
const ResumeArgument = "resume"

// MaxProgram bounds the source of a program in a file, in bytes.
const MaxProgram = 200 << 10

// SavedProgram is a program that is a tool.
type SavedProgram struct {
	// Name is the key in programs.saved, and the name of the tool.
	Name string

	File        string        `key:"file" doc:"The program: JavaScript, the body of an async function, as tool_run takes it. Its arguments are the variable input. A relative path is relative to this file. weir reads it again when it changes."`
	Description string        `key:"description" doc:"What the tool does, for agents."`
	InputSchema strict.Object `key:"input_schema" doc:"JSON Schema of the arguments, an object. The tool also has the argument resume, which goes on with a run that failed. Default: no arguments but that."`
	ReadOnly    bool          `key:"read_only" default:"false" doc:"The program only reads. The tool is listed so, and a call of the program to a tool that does not declare itself read-only is refused."`
	Destructive *bool         `key:"destructive" doc:"What the program changes may be lost (true), or it only adds (false). Default: not declared."`
	Idempotent  bool          `key:"idempotent" default:"false" doc:"A second call with the same arguments changes nothing more."`

	source string
}

// Source returns the text of the program, "" if the configuration was read without files.
func (p *SavedProgram) Source() string { return p.source }

// checkSaved checks a saved program, and reads its file.
func (d *decoder) checkSaved(p *SavedProgram) {
	at := strict.Join("programs.saved", p.Name)
	if !legalName(p.Name) {
		d.Fail(d.At(at), at, "%s: the name of the tool must be 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first", strict.Clip(at))
	}
	if strings.TrimSpace(p.Description) == "" && !d.Bad(strict.Join(at, "description")) {
		d.Fail(d.At(at), at, "%s has no description; agents find the tool by it", at)
	}
	schema := strict.Join(at, "input_schema")
	if kind := rawjson.Get(p.InputSchema, "type"); kind != nil && string(kind) != `"object"` {
		d.Fail(d.At(schema), schema, "%s: the arguments of a tool are an object, so its type must be object", schema)
	}
	if rawjson.GetPath(p.InputSchema, "properties", ResumeArgument) != nil {
		d.Fail(d.At(schema), schema, "%s has the property %s, which weir adds to each saved program to go on with a run; give yours another name", schema, ResumeArgument)
	}
	if key := strict.Join(at, "destructive"); p.ReadOnly && p.Destructive != nil && *p.Destructive {
		d.Fail(d.At(key), key, "%s: a program with read_only: true changes nothing; remove one of both", key)
	}
	d.readProgram(p, at)
}

func (d *decoder) readProgram(p *SavedProgram, at string) {
	key := strict.Join(at, "file")
	if p.File == "" {
		if !d.Bad(key) {
			d.Fail(d.At(at), at, "%s has no file", at)
		}
		return
	}
	if !filepath.IsAbs(p.File) {
		if d.dir == "" {
			return // The configuration is in no folder.
		}
		p.File = filepath.Join(d.dir, p.File)
	}
	o := &d.expand.opts
	if o.ReadFile == nil {
		return
	}
	data, err := o.ReadFile(p.File)
	o.again.seen.files.note(p.File, data, err)
	if err != nil {
		d.Report(d.At(key), key, err, "%s: %q: %s; create the file, or remove the entry", key, strict.Clip(p.File), readMessage(err))
		return
	}
	source := strings.TrimPrefix(string(data), "\ufeff")
	switch {
	case len(source) > MaxProgram:
		d.Fail(d.At(key), key, "%s: %q has more than %d bytes, the most of a program", key, strict.Clip(p.File), MaxProgram)
	case !utf8.ValidString(source):
		d.Fail(d.At(key), key, "%s: %q is not text in UTF-8", key, strict.Clip(p.File))
	case strings.TrimSpace(source) == "":
		d.Fail(d.At(key), key, "%s: %q is empty", key, strict.Clip(p.File))
	default:
		p.source = source
		if o.CheckProgram == nil {
			return
		}
		if err := o.CheckProgram(p); err != nil {
			d.Report(d.At(key), key, err, "%s: %s: %v", at, filepath.Base(p.File), err)
		}
	}
}

// checkSavedNames refuses servers with the name of the server of the saved programs.
func checkSavedNames(d *strict.Decoder, c *Config) {
	if len(c.Programs.Saved) == 0 {
		return
	}
	for _, s := range c.Servers {
		if at := "mcpServers." + s.Name; !s.Disabled && (strings.EqualFold(s.Name, SavedServer) || s.Namespace == SavedServer) {
			d.Fail(d.At(at), at, "%s has the name or the namespace %s, and the programs of programs.saved are the tools %s:NAME; give the server another one", at, SavedServer, SavedServer)
		}
	}
}
