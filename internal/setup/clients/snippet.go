package clients

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// Snippet returns the text that a user pastes into the client's file to connect it by hand. It also
// returns a link that makes the client ask for the same, "" if the client knows no such link.
func (c *Client) Snippet(h How) (text, link string, err error) {
	entry := withName(c, entryName, c.Entry(h))
	out, err := splice.Set(nil, c.Format, append(slices.Clone(c.key), c.nameIn(entryName)), entry)
	if err != nil {
		return "", "", err
	}
	if c.link != nil {
		link = c.link(entry)
	}
	return string(out), link, nil
}

// asJSON returns an entry as JSON; the members are of the table and can always be written.
func asJSON(path splice.Path, entry splice.Object) string {
	out, err := splice.Set(nil, splice.JSON, path, entry)
	if err != nil {
		return "{}"
	}
	return compact(out)
}

// compact returns JSON on one line.
func compact(doc []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, doc); err != nil {
		return "{}"
	}
	return out.String()
}

func cursorLink(entry splice.Object) string {
	return "cursor://anysphere.cursor-deeplink/mcp/install?name=" + entryName + "&config=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(members(entry))))
}

func lmStudioLink(entry splice.Object) string {
	return "lmstudio://add_mcp?name=" + entryName + "&config=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(members(entry))))
}

func cherryLink(entry splice.Object) string {
	return "cherrystudio://mcp/install?servers=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(asJSON(splice.Path{"mcpServers", entryName}, entry))))
}

// vscodeLink returns the link of one edition of VS Code.
func vscodeLink(scheme string) func(splice.Object) string {
	return func(entry splice.Object) string {
		return scheme + ":mcp/install?" + url.PathEscape(members(append(splice.Object{{Key: "name", Value: entryName}}, entry...)))
	}
}

// members returns an object as JSON without a key around it.
func members(entry splice.Object) string {
	doc := []byte(asJSON(splice.Path{"entry"}, entry))
	raw, ok, err := splice.Raw(doc, splice.JSON, splice.Path{"entry"})
	if err != nil || !ok {
		return "{}"
	}
	return compact(raw)
}
