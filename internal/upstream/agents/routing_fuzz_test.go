package agents

import (
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// FuzzParseRouting: whatever a routing.json holds, what comes out of it can be
// used.
func FuzzParseRouting(f *testing.F) {
	for _, seed := range []string{
		`{"port":8088,"routes":{"a":{"hostPort":7001},"b":7002,"c":{"hostPort":"7003","host":"::1","path":"x"},"d":{"url":"https://h/p"}}}`,
		`{"routes":{"":{"hostPort":1},"a/b":1,"x":null,"y":{"hostPort":0}}}`, `[]`, `{"port":"x"}`, "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRouting(data)
		if err != nil {
			return
		}
		if r.Port < 0 || r.Port > 65535 {
			t.Errorf("port %d", r.Port)
		}
		last := ""
		for _, route := range r.Routes {
			if _, err := config.NewServer(route.Name, route.URL); err != nil || route.Name <= last {
				t.Errorf("%+v: %v", route, err)
			}
			last = route.Name
		}
	})
}
