package clients

import (
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// Hidden stands for a secret in an entry that is shown.
const Hidden = "•••"

// Conceal returns an entry of weir.yaml, or the changed part of one, with references in the place of
// its secrets, and the secrets.
func Conceal(server string, entry splice.Object) (splice.Object, []Secret) {
	p := &Plan{}
	f := &concealer{plan: p, server: server}
	return f.object("", entry), p.Secrets
}

// Hide returns an entry of weir.yaml with Hidden in the place of its secrets.
func Hide(server string, entry splice.Object) splice.Object {
	out, secrets := Conceal(server, entry)
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s.Reference(), Hidden)
	}
	return MapTexts(out, strings.NewReplacer(pairs...).Replace).(splice.Object)
}

// MapTexts returns a value of a document with each text of it changed.
func MapTexts(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = MapTexts(one, change)
		}
		return out
	case splice.Object:
		out := make(splice.Object, len(v))
		for i, m := range v {
			out[i] = splice.Member{Key: m.Key, Value: MapTexts(m.Value, change)}
		}
		return out
	}
	return v
}

// object conceals the members of an object. parent is the key of the object.
func (f *concealer) object(parent string, o splice.Object) splice.Object {
	out := make(splice.Object, len(o))
	for i, m := range o {
		out[i] = splice.Member{Key: m.Key, Value: f.member(parent, m.Key, m.Value)}
	}
	return out
}

// member conceals the secrets of a member.
func (f *concealer) member(parent, key string, v any) any {
	name, where := f.server+"_"+key, key
	if parent == "env" || parent == "headers" {
		where = parent + "." + key
	}
	if parent == "env" {
		name = key
	}
	switch v := v.(type) {
	case string:
		if parent == "" && strings.HasSuffix(strings.ToLower(key), "url") {
			return f.url(name, where, v)
		}
		return f.value(name, where, v)
	case splice.Object:
		return f.object(key, v)
	case []any:
		return f.list(parent, key, v)
	}
	return v
}

// list conceals the secrets of a list. The arguments of a program are looked at together.
func (f *concealer) list(parent, key string, v []any) []any {
	out := make([]any, len(v))
	if args, ok := texts(v); ok && parent == "" && key == "args" {
		f.arguments(args)
		for i, arg := range args {
			out[i] = arg
		}
		return out
	}
	for i, one := range v {
		out[i] = f.member(parent, key, one)
	}
	return out
}
