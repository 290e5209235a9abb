package openapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// request returns the request of a call. The errors are of KindInvalidParams.
func (o *operation) request(ctx context.Context, base *url.URL, header http.Header, arguments json.RawMessage) (*http.Request, error) {
	args := map[string]json.RawMessage{}
	if len(arguments) > 0 && string(arguments) != "null" {
		if err := json.Unmarshal(arguments, &args); err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "arguments: %v", err)
		}
	}
	for name, value := range args {
		if !o.takes(name) {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "the tool %q has no argument %q", o.name, name)
		}
		if string(value) == "null" && (o.body == nil || name != o.body.arg) {
			delete(args, name)
		}
	}
	path, query, cookies := o.path, []string{}, []string{}
	head := header.Clone()
	for _, p := range o.params {
		value, given := args[p.arg]
		if !given && p.in != "path" {
			continue
		}
		switch p.in {
		case "path":
			text := p.inPath(value)
			if text == "" || text == "." || text == ".." {
				return nil, mcp.Errorf(mcp.KindInvalidParams, "the argument %q stands in the path and must not be empty or a dot", p.arg)
			}
			path = strings.ReplaceAll(path, "{"+p.name+"}", text)
		case "query":
			query = append(query, p.inQuery(value)...)
		case "cookie":
			cookies = append(cookies, p.name+"="+url.QueryEscape(strings.Join(p.values(value), ",")))
		case "header":
			text := strings.Join(p.values(value), ",")
			if strings.ContainsAny(text, "\r\n\x00") {
				return nil, mcp.Errorf(mcp.KindInvalidParams, "the argument %q is a header and must be one line", p.arg)
			}
			head.Set(p.name, text)
		}
	}
	target := *base
	raw := strings.TrimRight(base.EscapedPath(), "/") + path
	var err error
	if target.Path, err = url.PathUnescape(raw); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "the path %s of the document cannot be requested: %v", o.path, err)
	}
	target.RawPath = raw
	if base.RawQuery != "" {
		query = append([]string{base.RawQuery}, query...)
	}
	target.RawQuery = strings.Join(query, "&")
	var content io.Reader
	if o.body != nil && args[o.body.arg] != nil {
		data, media, err := o.body.encode(args[o.body.arg])
		if err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "the argument %q: %v", o.body.arg, err)
		}
		content = bytes.NewReader(data)
		head.Set("Content-Type", media)
	}
	r, err := http.NewRequestWithContext(ctx, o.method, target.String(), content)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "the request of %s cannot be made", o.name)
	}
	head.Set("Accept", o.accept)
	if len(cookies) > 0 {
		head.Set("Cookie", strings.Join(append(head.Values("Cookie"), cookies...), "; "))
	}
	r.Header = head
	return r, nil
}

// takes reports whether an argument exists.
func (o *operation) takes(name string) bool {
	return o.body != nil && o.body.arg == name || slices.ContainsFunc(o.params, func(p param) bool { return p.arg == name })
}

// scalar returns a JSON value as a text: a text itself, all others as JSON.
func scalar(v json.RawMessage) string {
	if len(v) > 0 && v[0] == '"' {
		return rawjson.Text(v)
	}
	return string(v)
}

// member is a member of an object, or an element of an array without a key.
type member struct{ key, value string }

// members returns the elements of an array or the members of an object.
func members(v json.RawMessage) (all []member, object bool) {
	switch {
	case len(v) > 0 && v[0] == '[':
		_ = rawjson.EachElement(v, func(e []byte) bool { all = append(all, member{"", scalar(e)}); return true })
		return all, false
	case len(v) > 0 && v[0] == '{':
		_ = rawjson.EachMember(v, func(m rawjson.Member) bool {
			all = append(all, member{string(m.Key), scalar(m.Value)})
			return true
		})
		return all, true
	}
	return []member{{"", scalar(v)}}, false
}

// values returns the texts of a value in the style simple, which are joined by commas.
func (p *param) values(v json.RawMessage) (texts []string) {
	if p.json {
		return []string{string(v)}
	}
	all, object := members(v)
	for _, m := range all {
		switch {
		case object && p.explode:
			texts = append(texts, m.key+"="+m.value)
		case object:
			texts = append(texts, m.key, m.value)
		default:
			texts = append(texts, m.value)
		}
	}
	return texts
}

// inPath returns the text of a value in a path: in the styles simple, label and matrix.
func (p *param) inPath(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	texts := p.values(v)
	for i, t := range texts {
		texts[i] = url.PathEscape(t)
	}
	switch p.style {
	case "label":
		return "." + strings.Join(texts, map[bool]string{true: ".", false: ","}[p.explode])
	case "matrix":
		all, object := members(v)
		switch {
		case p.explode && object:
			return ";" + strings.Join(texts, ";")
		case p.explode && len(all) > 1:
			return ";" + p.name + "=" + strings.Join(texts, ";"+p.name+"=")
		}
		return ";" + p.name + "=" + strings.Join(texts, ",")
	}
	return strings.Join(texts, ",")
}

// inQuery returns the pairs of a value in a query.
func (p *param) inQuery(v json.RawMessage) (pairs []string) {
	pair := func(name, value string) { pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(value)) }
	all, object := members(v)
	switch {
	case p.json:
		pair(p.name, string(v))
	case p.style == "deepObject" && object:
		for _, m := range all {
			pair(p.name+"["+m.key+"]", m.value)
		}
	case p.explode && object:
		for _, m := range all {
			pair(m.key, m.value)
		}
	case p.explode:
		for _, m := range all {
			pair(p.name, m.value)
		}
	default:
		between := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[p.style]
		if between == "" {
			between = ","
		}
		texts := p.values(v)
		for i, t := range texts {
			texts[i] = url.QueryEscape(t)
		}
		pairs = append(pairs, url.QueryEscape(p.name)+"="+strings.Join(texts, between))
	}
	return pairs
}

// encode returns the bytes of a body and its media type.
func (b *body) encode(v json.RawMessage) (data []byte, media string, err error) {
	switch {
	case isJSON(b.media):
		return v, b.media, nil
	case strings.HasPrefix(b.media, multipartMedia):
		return b.multipart(v)
	case strings.HasPrefix(b.media, formMedia):
		form := param{style: "form", explode: true}
		var pairs []string
		err := rawjson.EachMember(v, func(m rawjson.Member) bool {
			form.name = string(m.Key)
			if rawjson.IsObject(m.Value) {
				form.style = "deepObject"
			}
			pairs = append(pairs, form.inQuery(m.Value)...)
			form.style = "form"
			return true
		})
		return []byte(strings.Join(pairs, "&")), formMedia, err
	case b.isText():
		return []byte(scalar(v)), b.media, nil
	}
	data, err = base64.StdEncoding.DecodeString(rawjson.Text(v))
	if err != nil {
		return nil, "", fmt.Errorf("it is not base64: %w", err)
	}
	if b.media == "*/*" {
		return data, "application/octet-stream", nil
	}
	return data, b.media, nil
}

// multipart returns a form with files, which are base64 in arguments.
func (b *body) multipart(v json.RawMessage) (data []byte, media string, err error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	add := func(name string, value json.RawMessage) error {
		h := textproto.MIMEHeader{}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "", "\n", "").Replace(name)
		disposition, content := `form-data; name="`+quoted+`"`, []byte(scalar(value))
		kind := b.types[name]
		switch {
		case b.files[name]:
			if content, err = base64.StdEncoding.DecodeString(rawjson.Text(value)); err != nil {
				return fmt.Errorf("%s is not base64: %w", name, err)
			}
			disposition += `; filename="` + quoted + `"`
			if kind == "" {
				kind = "application/octet-stream"
			}
		case kind == "" && (rawjson.IsObject(value) || rawjson.IsArray(value)):
			kind = "application/json"
		}
		h.Set("Content-Disposition", disposition)
		if kind != "" {
			h.Set("Content-Type", kind)
		}
		part, err := w.CreatePart(h)
		if err == nil {
			_, err = part.Write(content)
		}
		return err
	}
	var failed error
	err = rawjson.EachMember(v, func(m rawjson.Member) bool {
		name := string(m.Key)
		if !rawjson.IsArray(m.Value) {
			failed = add(name, m.Value)
			return failed == nil
		}
		_ = rawjson.EachElement(m.Value, func(e []byte) bool { failed = add(name, e); return failed == nil })
		return failed == nil
	})
	if failed != nil {
		err = failed
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), w.FormDataContentType(), err
}
