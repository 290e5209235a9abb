package config

import (
	"path/filepath"
	"strings"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// checkOpenAPI checks an entry that is an HTTP API.
func checkOpenAPI(d *decoder, s *Server, path string) {
	key, typeKey, o := strict.Join(path, "openapi"), strict.Join(path, "type"), &s.OpenAPI
	if !d.Set(key) {
		if s.Type == mcpserver.TransportOpenAPI {
			d.Fail(d.At(typeKey), typeKey, "%s is openapi, which needs %s: the OpenAPI document of the API", typeKey, key)
		}
		return
	}
	if o.Document == "" {
		if !d.Bad(key) {
			d.Fail(d.At(key), key, "%s names no document; give it a file or a URL, as text or as %s.document", key, key)
		}
		return
	}
	switch {
	case s.Type != mcpserver.TransportOpenAPI:
		d.Fail(d.At(typeKey), typeKey, "%s must be openapi, or be left out, with %s", typeKey, key)
	case s.Command != "":
		d.Fail(d.At(key), key, "%s goes with %s.url alone; remove %s.command", key, path, path)
	case s.URL == "" && !d.Set(strict.Join(path, "url")):
		d.Fail(d.At(key), key, "%s needs %s.url, the URL of the API itself: weir asks no server that the document names", key, path)
	case s.Agent || s.PerSession:
		d.Fail(d.At(key), key, "%s does not go with agent or per_session: an HTTP API knows no sessions", key)
	case strings.HasPrefix(o.Document, "http://"), strings.HasPrefix(o.Document, "https://"):
		d.CheckURL(o.Document, strict.Join(key, "document"))
	case strings.Contains(o.Document, "\x00"):
		d.Fail(d.At(key), key, "%s holds a NUL character", key)
	case !filepath.IsAbs(o.Document) && d.dir != "":
		o.Document = filepath.Join(d.dir, o.Document)
	}
}
