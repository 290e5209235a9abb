package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// checkClients looks for weir in the files of the clients that this machine has.
func (d *doctor) checkClients(ctx context.Context) []Finding {
	if d.Machine.Exists == nil {
		return nil
	}
	connected := d.connected()
	var list []Finding
	var wired, there int
	for _, f := range clients.Detect(d.Machine) {
		if d.Only != "" && f.Client.ID != d.Only {
			continue
		}
		there++
		some, ok := d.checkClient(ctx, f, connected)
		if list = append(list, some...); ok {
			wired++
		}
	}
	switch {
	case d.Only != "" && there == 0:
		list = append(list, found("client-none", "client "+d.Only, "this machine does not have it").fix("Install it, or see its file with: weir connect %s --print", d.Only))
	case d.Only != "" && wired == 0 && len(list) == 0:
		list = append(list, found("client-none", "client "+d.Only, "it does not use weir").fix("Run: weir connect %s", d.Only))
	case d.Only == "" && there > 0 && wired == 0 && !slices.ContainsFunc(list, func(f Finding) bool { return f.ID == "client-lost" }):
		list = append(list, found("client-none", "clients", "%d clients are there, and none of them uses weir", there))
	}
	return list
}

// checkClient looks at the files of one client.
func (d *doctor) checkClient(ctx context.Context, f clients.Found, connected map[string]journal.EditRecord) (list []Finding, wired bool) {
	c := f.Client
	thing := "client " + c.ID
	for _, file := range f.Files {
		doc, err := d.env.ReadFile(file)
		var servers []clients.Server
		if err == nil {
			servers, _, err = clients.Servers(c, doc, d.Machine)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			list = append(list, found("client-unreadable", thing, "%s: %v", file, err))
			continue
		}
		var ours []clients.Server
		for _, s := range servers {
			if s.Project == "" && (d.How.IsOurs(s) || s.Name == entryName && loopback(s.URL)) {
				ours = append(ours, s)
			}
		}
		switch edit, was := connected[file]; {
		case len(ours) > 0:
			wired = true
			list = append(list, d.checkEntry(ctx, thing, file, c, ours[0]))
		case was:
			list = append(list, d.lost(thing, file, c, edit))
		}
		if len(ours) > 1 {
			list = append(list, found("client-twice", thing, "%s has %d entries for weir", file, len(ours)).fix("Run: weir connect %s", c.ID))
		}
	}
	return list, wired
}

// checkEntry judges weir's entry in a client's file.
func (d *doctor) checkEntry(ctx context.Context, thing, file string, c *clients.Client, s clients.Server) Finding {
	again := fmt.Sprintf("Run: weir connect %s", c.ID)
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil {
			return found("client-port", thing, "%s: its entry has no URL that can be read", file).fix("%s", again)
		}
		address := u.Host
		if u.Port() == "" {
			address = net.JoinHostPort(u.Hostname(), map[string]string{"https": "443"}[u.Scheme])
			if u.Scheme == "http" {
				address = net.JoinHostPort(u.Hostname(), "80")
			}
		}
		if !d.listens(ctx, address) {
			return found("client-port", thing, "%s: its entry names %s, where nothing answers", file, u.Redacted()).fix("Start the gateway (weir service start, or weir serve), or %s%s", strings.ToLower(again[:1]), again[1:])
		}
		return fine("client", thing, "weir is in %s", file)
	}
	command := s.Command
	if name := commandName(command); (name == "cmd") && len(s.Args) > 1 {
		command = s.Args[1]
	}
	if d.env.find(command, d.env.Getenv("PATH")) == "" {
		return found("client-path", thing, "%s: its entry starts %s, which is not there", file, command).fix("%s", again)
	}
	return fine("client", thing, "weir is in %s", file)
}

// loopback reports whether a URL leads to this machine.
func loopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil || text == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// connected returns the files that should have weir's entry, with the edit that set it, as the
// journal knows them.
func (d *doctor) connected() map[string]journal.EditRecord {
	files := map[string]journal.EditRecord{}
	if d.Journal == nil {
		return files
	}
	records, err := d.Journal.List()
	if err != nil {
		return files // weir undo reports a damaged journal
	}
	for _, r := range records {
		if !r.Done || r.UndoneBy != 0 || r.Kind == "undo" {
			continue
		}
		for _, f := range r.Files {
			for _, e := range f.Edits {
				switch {
				case e.Set && d.setsWeir(f.Format, e):
					files[f.File] = e
				case !e.Set && slices.Equal(files[f.File].Path, e.Path):
					delete(files, f.File)
				}
			}
		}
	}
	return files
}

// setsWeir reports whether an edit put weir's entry into a file.
func (d *doctor) setsWeir(format splice.Format, e journal.EditRecord) bool {
	v, err := decodeValue(e.Value)
	if err != nil {
		return false
	}
	doc, err := splice.Set(nil, format, e.Path, v)
	if err != nil {
		return false
	}
	for _, c := range clients.All() {
		if c.Format != format {
			continue
		}
		servers, _, err := clients.Servers(c, doc, d.Machine)
		if err == nil && slices.ContainsFunc(servers, d.How.IsOurs) {
			return true
		}
	}
	return false
}

// decodeValue reads a value of the journal, with its members in order.
func decodeValue(raw json.RawMessage) (any, error) {
	tree, err := splice.Decode(slices.Concat([]byte(`{"v":`), raw, []byte("}")), splice.JSON)
	if err != nil {
		return nil, err
	}
	root, ok := tree.(splice.Object)
	if !ok {
		return nil, errors.New("no value")
	}
	return root.Get("v"), nil
}

// lost reports an entry that is gone, and how to put it back.
func (d *doctor) lost(thing, file string, c *clients.Client, e journal.EditRecord) Finding {
	f := found("client-lost", thing, "%s: weir's entry is gone since it was put there", file).fix("Quit %s, then run: weir doctor --fix", c.Name)
	f.Repair = &Repair{
		Show: fmt.Sprintf("put %s back into %s", e.Path, file),
		Do: func(ctx context.Context) (int, error) {
			v, err := decodeValue(e.Value)
			if err != nil {
				return 0, fmt.Errorf("the journal's entry for %s: %w", file, err)
			}
			op := d.Journal.Begin("doctor", "weir's entry put back into the file of "+c.Name)
			if _, err := op.Edit(file, c.Format, []journal.Edit{{Path: e.Path, Value: v}}); err != nil {
				return 0, err
			}
			done, err := op.Apply(ctx)
			return done.N, err
		},
	}
	return f
}
