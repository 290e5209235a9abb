package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Path is the URL path of the page.
const Path = "/console"

// Console serves the page. It is safe for concurrent use.
type Console struct {
	files func() map[string]file // read when the first is asked for
}

//go:embed web
var web embed.FS

// file is one file of the page.
type file struct {
	kind, tag string
	body      []byte
}

// New returns a Console.
func New() *Console { return &Console{files: sync.OnceValue(readFiles)} }

// readFiles returns the files of the page by the paths at which they are served.
func readFiles() map[string]file {
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	files := map[string]file{}
	names, err := fs.Glob(web, "web/*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		body, err := web.ReadFile(name)
		if err != nil {
			panic(err) // it is in the binary
		}
		sum := sha256.Sum256(body)
		at := Path + "/static/" + path.Base(name)
		if path.Base(name) == "index.html" {
			at = Path
		}
		files[at] = file{kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`, body}
	}
	return files
}

// policy allows the page's files to load each other and to contact this server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Page serves the page and its files. They contain no data, so they need no token.
func (c *Console) Page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	if !getOrHead(w, r) {
		return
	}
	if r.URL.Path == Path+"/" {
		h.Set("Location", "../console") // relative: there may be a prefix before it
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	f, ok := c.files()[r.URL.Path]
	if !ok {
		guard.WriteError(w, http.StatusNotFound, "", mcp.Errorf(mcp.KindNotFound, "there is no such file; the page is at %s", Path))
		return
	}
	h.Set("ETag", f.tag)
	if matches(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	_, _ = w.Write(f.body) // the client may have disconnected
}

func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

func getOrHead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: GET, HEAD", text.Line(r.Method, 20)))
	return false
}
