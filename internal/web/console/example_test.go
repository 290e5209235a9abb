package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-mcp/weir/internal/web/console"
)

// A Console is one handler, for every viewer.
func Example() {
	page := console.New()
	mux := http.NewServeMux()
	mux.HandleFunc(console.Path, page.Page)
	mux.HandleFunc(console.Path+"/", page.Page)

	for _, path := range []string{"/console", "/console/static/console.css", "/console/nothing"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/html; charset=utf-8
	// 200 text/css; charset=utf-8
	// 404 application/json
}
