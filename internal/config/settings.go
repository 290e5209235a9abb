package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// hiddenValue stands for a secret in a [Setting].
const hiddenValue = "***"

// An Origin is where the value of a setting comes from.
type Origin string

// The origins.
const (
	OriginDefault Origin = "default"  // the table of keys, or weir itself
	OriginFile    Origin = "file"     // the configuration file
	OriginFlag    Origin = "flag"     // a flag of the command line
	OriginEnvFile Origin = "env_file" // the file that env_file of a server names
)

// A Setting is one key of the configuration with the value that is in effect.
type Setting struct {
	Key string
	// Value is a bool, an int, a float64, a string or a []string. Durations and sizes are strings, as
	// in a file. A secret is hiddenValue, also within a longer text.
	Value  any
	Origin Origin
	// Line is the line of the key in the file; 0 without one.
	Line int
	// Name is the name of the flag, or of the file of env_file.
	Name string
	// From are the references in the file's text whose values it has, such as ${HOME} and
	// ${input:region}.
	From []string
}

// Source says where the value comes from, in one line: "weir.yaml:12, ${HOME}". file is the name of the
// configuration for people.
func (s *Setting) Source(file string) string {
	var out string
	switch s.Origin {
	case OriginFile:
		out = file
		if s.Line > 0 {
			out = fmt.Sprintf("%s:%d", file, s.Line)
		}
	case OriginFlag, OriginEnvFile:
		out = s.Name
	default:
		out = string(s.Origin)
	}
	return strings.Join(append([]string{out}, s.From...), ", ")
}

// origins are the places that a reading of a file remembers for Settings.
type origins struct {
	lines map[string]int      // of the keys that the file sets, by path
	from  map[string][]string // the references of a text, by path
	flags map[string]string   // the flags that replace keys, by path
}

// originsOf returns where the values of a file come from that was read.
func originsOf(d *decoder) origins {
	o := origins{lines: map[string]int{}, from: d.expand.from, flags: map[string]string{}}
	for path, node := range d.Places() {
		o.lines[path] = node.Line
	}
	if d.expand.opts.Listen != "" {
		o.flags["listen"] = "--listen"
	}
	if d.expand.opts.Mode != "" {
		o.flags["mode"] = "--mode"
	}
	return o
}

// Settings returns the configuration in effect, in the order of the table of keys: each key that the
// file or a flag sets, and each other one that has a default. Secrets are hidden. The caller owns the
// slice.
func (c *Config) Settings() []Setting {
	l := &lister{c: c, hide: redact.New(c.secrets)}
	l.object("", reflect.ValueOf(c).Elem())
	return l.all
}

// A lister makes the Settings of a Config.
type lister struct {
	c    *Config
	hide *redact.Set
	all  []Setting
}

// object lists the keys of a struct.
func (l *lister) object(path string, v reflect.Value) {
	if s, is := v.Addr().Interface().(*Server); is && s.Faulty() {
		l.add(strict.Join(path, "disabled"), s.Disabled, "")
		return // its other fields mean nothing
	}
	for _, f := range strict.Fields(v.Type()) {
		l.value(strict.Join(path, f.Key), v.FieldByIndex(f.Index), f, path)
	}
}

// value lists one key. parent is the path of its object.
func (l *lister) value(path string, v reflect.Value, f strict.Field, parent string) {
	secret := hashKey(f.Key)
	switch k := f.Kind(); k {
	case strict.KindObject:
		l.object(path, v)
	case strict.KindObjects:
		for i := range v.Len() {
			l.object(path+"["+strconv.Itoa(i)+"]", element(v.Index(i)))
		}
	case strict.KindNamed:
		for i := range v.Len() {
			one := element(v.Index(i))
			l.object(strict.Join(path, one.FieldByName(f.Name).String()), one)
		}
	case strict.KindMap:
		l.texts(path, v)
	case strict.KindTexts:
		if v.Len() == 0 && l.c.origins.lines[path] == 0 {
			return
		}
		l.add(path, l.list(path, v), "")
	case strict.KindNode:
		if node, _ := v.Interface().(*yaml.Node); node != nil {
			text, _ := yaml.Marshal(node) // it was read from a file
			l.add(path, l.text(strings.TrimSpace(string(text))), "")
		}
	case strict.KindOwn: // a strict.Object
		if v.Len() > 0 {
			l.add(path, l.text(string(v.Bytes())), "")
		}
	case strict.KindSecret:
		if v.String() == "" && l.c.origins.lines[path] == 0 {
			return
		}
		l.add(path, hiddenOf(v.String()), "")
	default:
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return
			}
			v = v.Elem()
			if in, is := l.input(path); is && in.Password {
				secret = true
			}
		}
		value := plainValue(v, k)
		if text, is := value.(string); is {
			if text == "" && l.c.origins.lines[path] == 0 {
				return
			}
			if value = l.text(text); secret || l.secretFrom(path) {
				value = hiddenOf(text)
			}
		}
		flag := ""
		if f.Key == flagOf(l.c, parent) {
			flag = parent // "hub: {}" sets hub.enabled
		}
		l.add(path, value, flag)
	}
}

// input returns the entry of inputs to which a path belongs.
func (l *lister) input(path string) (Input, bool) {
	for i, in := range l.c.Inputs {
		if strings.HasPrefix(path, "inputs["+strconv.Itoa(i)+"].") {
			return in, true
		}
	}
	return Input{}, false
}

// flagOf returns the key that is on because its object is there; "" for other objects.
func flagOf(c *Config, object string) string {
	for _, f := range strict.Fields(reflect.TypeFor[Config]()) {
		if f.Key == object && c.origins.lines[object] > 0 {
			return f.Flag
		}
	}
	return ""
}

// texts lists a mapping of any names to texts.
func (l *lister) texts(path string, v reflect.Value) {
	var names []string
	for _, key := range v.MapKeys() {
		names = append(names, key.String())
	}
	slices.Sort(names)
	server, _ := l.server(path)
	for _, name := range names {
		here := strict.Join(path, name)
		text := v.MapIndex(reflect.ValueOf(name)).String() // the text itself, also of a Secret
		value := any(l.text(text))
		if v.Type().Elem() == reflect.TypeFor[Secret]() && !(plainName(name) && !l.hide.Holds(text)) && !mcpserver.HasUserText(Secret(text)) || l.secretFrom(here) {
			value = hiddenOf(text)
		}
		if server != nil && server.EnvFile != "" && strings.HasSuffix(path, ".env") && l.c.origins.lines[here] == 0 {
			l.all = append(l.all, Setting{Key: here, Value: value, Origin: OriginEnvFile, Name: server.EnvFile})
			continue
		}
		l.add(here, value, "")
	}
}

// server returns the server to whose entry a path belongs.
func (l *lister) server(path string) (*Server, bool) {
	name, ok := strings.CutPrefix(path, "mcpServers.")
	if !ok {
		return nil, false
	}
	return l.c.Server(strings.TrimSuffix(name, ".env"))
}

// list returns the texts of a list. An element that stands behind the name of a secret is hidden, as in
// ["--token", "…"].
func (l *lister) list(path string, v reflect.Value) []string {
	all := make([]string, v.Len())
	for i := range all {
		all[i] = v.Index(i).String()
	}
	found := redact.InArgs(all)
	tells := false // the element before is an option with the name of a secret
	for i, text := range all {
		all[i] = l.text(text)
		name, _, assigned := strings.Cut(text, "=")
		option, telling := strings.HasPrefix(text, "-"), redact.Telling(strings.TrimLeft(name, "-")) && !strings.ContainsAny(name, " \t")
		switch {
		case telling && assigned: // also a short one
			all[i] = name + "=" + hiddenValue
		case tells && !option:
			all[i] = hiddenValue
		}
		tells = option && telling && !assigned
		for _, secret := range found {
			all[i] = strings.ReplaceAll(all[i], secret, hiddenValue)
		}
		if v.Type().Elem() == reflect.TypeFor[Secret]() || l.secretFrom(path+"["+strconv.Itoa(i)+"]") {
			all[i] = hiddenOf(text)
		}
	}
	return all
}

// urlPassword finds the passwords of URLs, of which a text may have several, and urlPair the parameters in
// their queries and fragments.
var (
	urlPassword = lazy.Pattern(`://([^/?#\s:@]*):[^/?#\s]*@`)
	urlPair     = lazy.Pattern(`[?&;#][^=?&;#\s]+=[^&;#\s]*`)
)

// text hides the secrets within a text.
func (l *lister) text(text string) string {
	if strings.Contains(text, "://") { // package redact leaves out short secrets, because they garble other texts
		text = urlPassword().ReplaceAllString(text, "://$1:"+hiddenValue+"@")
		text = urlPair().ReplaceAllStringFunc(text, func(pair string) string {
			name, _, _ := strings.Cut(pair, "=")
			if !redact.Telling(name[1:]) {
				return pair
			}
			return name + "=" + hiddenValue
		})
	}
	for _, secret := range redact.InURL(text) {
		text = strings.ReplaceAll(text, secret, hiddenValue)
	}
	return strings.ReplaceAll(l.hide.Replace(text), redact.Mark, hiddenValue)
}

// secretFrom reports whether the text at a path has the value of a secret, also of a short one.
func (l *lister) secretFrom(path string) bool {
	return slices.ContainsFunc(l.c.origins.from[path], func(ref string) bool {
		name := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}")
		if id, is := strings.CutPrefix(name, "input:"); is {
			return slices.ContainsFunc(l.c.Inputs, func(in Input) bool { return in.ID == id && in.Password })
		}
		source, _, _ := strings.Cut(name, ":")
		return slices.Contains([]string{"secret", "exec", "file"}, source) || source == name && tellingName(name)
	})
}

// add adds a setting. object is the path of an object that sets it by being there; "" for none.
func (l *lister) add(path string, value any, object string) {
	o := &l.c.origins
	one := Setting{Key: path, Value: value, Origin: OriginDefault, From: o.from[path]}
	if texts, is := value.([]string); is {
		seen := map[string]bool{}
		for i := range texts {
			for _, ref := range o.from[path+"["+strconv.Itoa(i)+"]"] {
				seen[ref] = true
			}
		}
		one.From = slices.Sorted(maps.Keys(seen))
	}
	switch line := max(o.lines[path], o.lines[object]); {
	case o.flags[path] != "":
		one.Origin, one.Name = OriginFlag, o.flags[path]
	case line > 0:
		one.Origin, one.Line = OriginFile, line
	}
	l.all = append(l.all, one)
}

// hashKey reports whether a key has the hash of a secret, which is as good as the secret to guess one.
func hashKey(key string) bool { return key == "sha256" }

func hiddenOf(text string) string {
	if text == "" {
		return ""
	}
	return hiddenValue
}

func element(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer {
		return v.Elem()
	}
	return v
}

// plainValue returns a value as a file has it.
func plainValue(v reflect.Value, k strict.Kind) any {
	switch k {
	case strict.KindDuration:
		return durationText(time.Duration(v.Int()))
	case strict.KindBytes:
		return bytesText(v.Int())
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int64:
		return int(v.Int())
	case reflect.Float64:
		return v.Float()
	case reflect.String:
		return v.String()
	}
	return fmt.Sprint(v.Interface()) // a type that reads itself
}

// durationText writes 1m0s as 1m.
func durationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// bytesText writes a size with the largest unit that keeps it whole.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}, {1 << 10, "KB"}} {
		if n != 0 && n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}
