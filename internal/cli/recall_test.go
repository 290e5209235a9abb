package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestKilledRecall: after kill -9, conditions still know how often a session has called, and browse
// answers begin with the cards that the session has seen.
func TestKilledRecall(t *testing.T) {
	t.Parallel()
	r := startKept(t, "cache_stable: true\npolicy: {rules: [{action: deny, tool: '*', when: 'session.calls >= 3'}]}\nmcpServers: {fake: {command: %FAKE%}}\n")
	id := r.tool("fake:echo")
	c := newPlainClient(t, r.url)
	call := func() string {
		t.Helper()
		_, body := c.ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"text":"x"}}}`)
		return body
	}
	browse := func() string {
		t.Helper()
		_, body := c.ask(t, "tools/call", `{"name":"tool_browse","arguments":{"query":"echo"}}`)
		return body
	}
	for n := range 2 {
		if body := call(); strings.Contains(body, "POLICY") {
			t.Errorf("call %d: %s", n, body)
		}
	}
	before := browse()
	r.keeps(t, `":2}`, `"seen":`)
	r.kill(t)
	if body := call(); strings.Contains(body, `"isError":true`) {
		t.Errorf("the third call: %s", body)
	}
	if body := call(); !strings.Contains(body, `"isError":true`) {
		t.Errorf("a call after the third, over a kill: %s", body)
	}
	if after := browse(); after != before {
		t.Errorf("the stable answer was\n%s\nand is\n%s", before, after)
	}
}

// TestKilledVectors: after kill -9 the endpoint of search.embedding is not asked again for what it has
// answered.
func TestKilledVectors(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		if json.NewDecoder(r.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		asked.Add(int64(len(in.Input)))
		var data []string
		for i, text := range in.Input {
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%d,1]}`, i, len(text)))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
	}))
	t.Cleanup(web.Close)
	r := startKept(t, "search: {embedding: {url: '"+web.URL+"', model: m}}\nmcpServers: {fake: {command: %FAKE%}}\n")
	r.tool("fake:echo")
	ranked := func() {
		t.Helper()
		until(t, "ranked", func() string {
			if log := r.stderr.String(); !strings.Contains(log, "ranked by meaning") {
				return log
			}
			return "ranked"
		})
	}
	ranked()
	if asked.Load() == 0 {
		t.Fatal("nothing was asked for")
	}
	before := asked.Load()
	r.kill(t)
	ranked()
	if again := asked.Load() - before; again != 0 {
		t.Errorf("after a kill, the endpoint was asked for %d texts again", again)
	}
}
