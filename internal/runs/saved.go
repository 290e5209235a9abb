package runs

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/program"
)

// A program of the configuration is a tool:
//
//	programs.saved ─▶ savedListing ─▶ weir.lock ─▶ catalog: the tool weir:NAME
//	             └──▶ savedOf ─▶ Runner: what a call of it runs
//
// The definition of a tool has the hash of its program, and the hints that the configuration declares. So weir.lock and the pin of the catalog see a changed
// program, and a call of a definition that another program has replaced meanwhile is refused.

// Saved is a program that is a tool. ReadOnly says that it may only read.
type Saved struct {
	Source, Hash string
	ReadOnly     bool
}

// MetaProgram is the member of _meta with the hash of the program in the definition of its tool.
const MetaProgram = "weir/program"

// List puts the saved programs of a configuration into a catalog, in place of the former ones. It must not be
// called concurrently.
func (p *Programs) List(c *config.Config, to lockfile.Sink) {
	if l := savedListing(c); p.pool != nil && c.Programs.Enabled && len(l.Tools) > 0 {
		to.Update(l)
		p.listed = true
		return
	}
	if p.listed { // else the catalog would tell of a change
		to.Remove(config.SavedServer)
		p.listed = false
	}
}

// Prepare returns a function that puts a reload in force in a catalog, nil if there is nothing to do.
func (p *Programs) Prepare(r part.Reload, to lockfile.Sink) (apply func()) {
	if reflect.DeepEqual(r.Now.Programs, r.Next.Programs) {
		return nil
	}
	return func() { p.List(r.Next, to) }
}

// resumeSchema is the schema of the argument that each tool has in addition to its own.
const resumeSchema = `{"type":"string","description":"run id of an error: finished calls are not repeated"}`

// savedListing returns the tools of a configuration, as a server would list them.
func savedListing(c *config.Config) primitive.Listing {
	l := primitive.Listing{Upstream: config.SavedServer, Namespace: config.SavedServer, Title: "weir", About: "Saved programs of this gateway."}
	for _, p := range c.Programs.Saved {
		if p.Source() != "" { // it has been read
			l.Tools = append(l.Tools, definition(p))
		}
	}
	return l
}

// definition returns the definition of a tool.
func definition(p *config.SavedProgram) json.RawMessage {
	w := rawjson.NewWriter(nil).Object().Key("name").String(p.Name).Key("description").String(strings.TrimSpace(p.Description))
	w.Key("inputSchema").Raw(inputSchema(json.RawMessage(p.InputSchema)))
	if p.ReadOnly || p.Destructive != nil || p.Idempotent {
		w.Key("annotations").Object().Key("readOnlyHint").Bool(p.ReadOnly)
		if p.Destructive != nil {
			w.Key("destructiveHint").Bool(*p.Destructive)
		}
		w.Key("idempotentHint").Bool(p.Idempotent).EndObject()
	}
	w.Key("_meta").Object().Key(MetaProgram).String(HashOf(p.Source())).EndObject()
	return w.EndObject().Bytes()
}

// inputSchema returns a schema of arguments with the argument resume.
func inputSchema(own json.RawMessage) json.RawMessage {
	if own == nil {
		own = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	properties := rawjson.Get(own, "properties")
	if !rawjson.IsObject(properties) {
		properties = json.RawMessage(`{}`)
	}
	properties, err := rawjson.Set(properties, config.ResumeArgument, json.RawMessage(resumeSchema))
	if err == nil {
		own, err = rawjson.Set(own, "properties", properties)
	}
	if err == nil && rawjson.Get(own, "type") == nil {
		own, err = rawjson.Set(own, "type", json.RawMessage(`"object"`))
	}
	if err != nil {
		return json.RawMessage(`{"type":"object"}`) // cannot happen: the configuration has made it
	}
	return own
}

// savedOf returns the programs of a configuration by the names of their tools.
func savedOf(c *config.Config) map[string]Saved {
	all := map[string]Saved{}
	for _, p := range c.Programs.Saved {
		if p.Source() == "" {
			continue
		}
		all[p.Name] = Saved{Source: p.Source(), Hash: HashOf(p.Source()), ReadOnly: p.ReadOnly}
	}
	return all
}

// CheckProgram returns what is wrong with a program: its syntax, with the line, or the schema of its arguments. It runs
// nothing; it is the value of config.Options.CheckProgram.
func CheckProgram(p *config.SavedProgram) error {
	if err := program.Check(p.Source()); err != nil {
		return err
	}
	l := primitive.Listing{Upstream: config.SavedServer, Namespace: config.SavedServer, Tools: []json.RawMessage{definition(p)}}
	c, _ := catalog.New(catalog.Limits{}).With(l)
	for _, f := range c.Findings() {
		if f.Kind == catalog.FoundSchema {
			return errors.New("input_schema: " + f.Message)
		}
	}
	return nil
}
