package openapi

import (
	"net/http"
	"net/url"
	"testing"
)

// TestResults makes results of answers of each kind. A query, which may have a secret, is in none.
func TestResults(t *testing.T) {
	at := &http.Request{URL: &url.URL{Scheme: "https", Host: "api.example.com", Path: "/a b", RawQuery: "key=s3cret"}}
	for _, c := range []struct {
		status      int
		media, data string
		cut, want   string
	}{
		{200, "application/json", `{"a":1}`, "", `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`},
		{200, "application/json", `{"a":`, "", `{"content":[{"type":"text","text":"{\"a\":"}]}`},
		{200, "application/geo+json", `[1]`, "", `{"content":[{"type":"text","text":"[1]"}]}`},
		{200, "text/html", "<p>", "", `{"content":[{"type":"text","text":"<p>"}]}`},
		{200, "", "plain", "", `{"content":[{"type":"text","text":"plain"}]}`},
		{200, "", "\x00\x01", "", `{"content":[{"type":"resource","resource":{"uri":"answer:/a%20b","mimeType":"application/octet-stream","blob":"AAE="}}]}`},
		{200, "audio/wav", "RIFF", "", `{"content":[{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}]}`},
		{200, "application/x-ndjson", "{}\n", "Cut.", `{"content":[{"type":"text","text":"{}\n"},{"type":"text","text":"Cut."}]}`},
		{304, "text/plain", "", "", `{"content":[{"type":"text","text":"HTTP 304 Not Modified"}]}`},
		{500, "text/plain", "down", "", `{"content":[{"type":"text","text":"HTTP 500 Internal Server Error"},{"type":"text","text":"down"}],"isError":true}`},
		{422, "application/json", `{"message":"no"}`, "", `{"content":[{"type":"text","text":"HTTP 422 Unprocessable Entity: no"},{"type":"text","text":"{\"message\":\"no\"}"}],"isError":true}`},
		{503, "", "", "", `{"content":[{"type":"text","text":"HTTP 503 Service Unavailable"}],"isError":true}`},
		{502, "image/gif", "GIF", "", `{"content":[{"type":"text","text":"HTTP 502 Bad Gateway"},{"type":"image","data":"R0lG","mimeType":"image/gif"}],"isError":true}`},
	} {
		got := string(resultOf(&http.Response{StatusCode: c.status, Request: at}, c.media, []byte(c.data), c.cut))
		if got != c.want {
			t.Errorf("%d %s %q is %s; expected %s", c.status, c.media, c.data, got, c.want)
		}
	}
}
