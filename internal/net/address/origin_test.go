package address

import "testing"

// TestOrigin: two spellings of one origin are one text, as browsers write it.
func TestOrigin(t *testing.T) {
	for raw, want := range map[string]string{
		"https://weir.example":           "https://weir.example",
		"https://weir.example:443":       "https://weir.example",
		"HTTPS://Weir.Example:443/mcp/":  "https://weir.example",
		"http://weir.example:80":         "http://weir.example",
		"http://weir.example:443":        "http://weir.example:443",
		"https://weir.example:8443":      "https://weir.example:8443",
		"https://weir.example:":          "https://weir.example",
		"https://[2001:DB8::1]:443":      "https://[2001:db8::1]",
		"https://[2001:db8::1]:8443":     "https://[2001:db8::1]:8443",
		"https://Bücher.example":         "https://xn--bcher-kva.example",
		"https://xn--bcher-kva.example/": "https://xn--bcher-kva.example",
		"https://my_host":                "https://my_host",
		"null":                           "",
		"":                               "",
		"/mcp":                           "",
		"https://%zz":                    "",
	} {
		if got := Origin(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}
