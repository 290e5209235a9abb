package tables

import "testing"

// Only what leads to this machine is relayed, and a server that names every address
// of its own is asked over loopback.
func TestLoopbackSource(t *testing.T) {
	for from, want := range map[string]string{
		"http://127.0.0.1:8088/s2sp/data/TOKEN":          "http://127.0.0.1:8088/s2sp/data/TOKEN",
		"http://localhost:8088/s2sp/data/TOKEN":          "http://localhost:8088/s2sp/data/TOKEN",
		"http://LOCALHOST/s2sp/data/TOKEN":               "http://LOCALHOST/s2sp/data/TOKEN",
		"http://[::1]:8088/s2sp/data/TOKEN":              "http://[::1]:8088/s2sp/data/TOKEN",
		"http://0.0.0.0:8088/s2sp/data/TOKEN":            "http://127.0.0.1:8088/s2sp/data/TOKEN",
		"http://0.0.0.0/s2sp/data/TOKEN":                 "http://127.0.0.1:80/s2sp/data/TOKEN",
		"http://[::]:8088/s2sp/data/TOKEN":               "http://[::1]:8088/s2sp/data/TOKEN",
		"http://10.0.0.7:8088/s2sp/data/TOKEN":           "",
		"http://169.254.169.254/s2sp/data/TOKEN":         "",
		"http://localhost.example.com/s2sp/data/TOKEN":   "",
		"http://127.0.0.1:8088/latest/meta-data":         "",
		"http://user@127.0.0.1:8088/s2sp/data/TOKEN":     "",
		"http://[64:ff9b::7f00:1]:8088/s2sp/data/TOKEN":  "",
		"http://127.0.0.1:8088/s2sp/data/TOKEN?as=admin": "",
		"http://127.0.0.1:8088/%zz":                      "",
	} {
		source, at, err := loopbackSource(from)
		if (err == nil) != (want != "") || err == nil && (at != want || source == nil) {
			t.Errorf("%s: %q, %v", from, at, err)
		}
	}
}
