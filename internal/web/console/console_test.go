package console

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestPage: the files of the page, with the headers that keep others out.
func TestPage(t *testing.T) {
	c := New()
	get := func(method, path string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		c.Page(w, r)
		for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s %s: %s is %q", method, path, name, got)
			}
		}
		return w
	}
	for path, kind := range map[string]string{
		"/console": "text/html", "/console/static/console.css": "text/css", "/console/static/console.js": "text/javascript", "/console/static/api.js": "text/javascript",
	} {
		w := get(http.MethodGet, path)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		if again := get(http.MethodGet, path, "If-None-Match", `"x", W/`+w.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: status %d, %d bytes", path, again.Code, again.Body.Len())
		}
	}
	if w := get(http.MethodGet, "/console/"); w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "../console" {
		t.Errorf("with a slash: status %d to %q", w.Code, w.Header().Get("Location"))
	}
	for _, path := range []string{"/console/static/", "/console/static/index.html", "/console/static/../console.go", "/console/console.js", "/console/x"} {
		if w := get(http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	if w := get(http.MethodPost, "/console"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d", w.Code)
	}
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' blob: data:", "require-trusted-types-for 'script'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy has no %s", part)
		}
	}
}

// TestFilesAreHarmless: nothing in the files makes markup or code of a text, and
// nothing comes from elsewhere.
func TestFilesAreHarmless(t *testing.T) {
	bad := regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('on|\bon[a-z]+="|\bstyle="|srcdoc|createContextualFragment|https?://|//cdn|import\(`)
	relative := regexp.MustCompile(`(?m)from '([^']+)'`)
	names, err := fs.Glob(web, "web/*")
	if err != nil || len(names) < 8 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	index, err := web.ReadFile("web/index.html")
	if err != nil {
		t.Fatal(err)
	}
	total, all := 0, []byte(nil)
	for _, name := range names {
		data, err := web.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		total += len(data)
		all = append(all, data...)
		data = bytes.ReplaceAll(data, []byte("http://www.w3.org/2000/svg"), nil) // the name of the vocabulary, which is asked of no server
		if found := bad.Find(data); found != nil {
			t.Errorf("%s has %q", name, found)
		}
		for _, m := range relative.FindAllSubmatch(data, -1) {
			file := strings.TrimPrefix(string(m[1]), "./")
			if _, err := web.ReadFile("web/" + file); err != nil {
				t.Errorf("%s imports %s: %v", name, m[1], err)
			}
			if !bytes.Contains(index, []byte(`<link rel="modulepreload" href="console/static/`+file+`">`)) {
				t.Errorf("%s imports %s, which index.html does not preload: the page comes later", name, file)
			}
		}
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(all); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	if total > 220<<10 || packed.Len() > 70<<10 {
		t.Errorf("the page has %d bytes, %d packed", total, packed.Len())
	}
}
