package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-mcp/weir/internal/console"
)

// A Console is two handlers: one for everybody, one for who may use the gateway.
func Example() {
	page := console.New(console.Options{Feed: &console.Feed{}}) // and what it asks
	defer page.Close()
	mux := http.NewServeMux()
	mux.HandleFunc(console.Path, page.Page)
	mux.HandleFunc(console.Path+"/", page.Page)
	mux.HandleFunc(console.DataPath, page.Data) // behind a guard

	for _, path := range []string{"/console", "/console/static/console.css", "/console/data/nothing"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/html; charset=utf-8
	// 200 text/css; charset=utf-8
	// 404 application/json
}
