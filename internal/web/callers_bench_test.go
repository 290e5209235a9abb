package web_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkKnownToken compares tool calls with a JWT that was verified before to those with static
// tokens, in turns: a short one, and one as long as the JWT. jwt/short and jwt/long are the ratios of
// the speeds; what they differ in is the price of the bytes of the header, on both sides.
func BenchmarkKnownToken(b *testing.B) {
	p := startProtected(b)
	groups := make([]string, 40) // as large as tokens of companies are
	for i := range groups {
		groups[i] = fmt.Sprintf("department-%02d", i)
	}
	tokens := []string{staticToken, longToken, p.token("u1", "/mcp", "groups", groups, "email", "u1@example.com", "name", "A User")}
	sessions, ids := make([]string, len(tokens)), make([]string, len(tokens))
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`
	for i, token := range tokens {
		resp, _ := p.do("POST", "/mcp", token, initialize)
		sessions[i] = resp.Header.Get("Mcp-Session-Id")
		_, body := p.do("POST", "/mcp", token, fmt.Sprintf(call, "tool_browse", `{"query":"echo"}`), "Mcp-Session-Id", sessions[i])
		if ids[i] = regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(body); ids[i] == "" {
			b.Fatalf("no echo: %s", body)
		}
	}
	one := func(i int) {
		body := fmt.Sprintf(call, "tool_execute", `{"tool_id":"`+ids[i]+`","args":{"text":"hello"}}`)
		r, err := http.NewRequest("POST", p.base+"/mcp", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+tokens[i])
		r.Header.Set("Mcp-Session-Id", sessions[i])
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			b.Fatal(resp.Status, err)
		}
	}
	for n := range 600 {
		one(n % len(tokens))
	}
	spent := make([][]time.Duration, len(tokens))
	b.ResetTimer()
	for n := range b.N {
		for turn := range tokens {
			i := (n + turn) % len(tokens)
			began := time.Now()
			one(i)
			spent[i] = append(spent[i], time.Since(began))
		}
	}
	for _, s := range spent {
		slices.Sort(s) // the medians are compared: other programs of the machine make single calls slow
	}
	short, long, jwt := spent[0][b.N/2], spent[1][b.N/2], spent[2][b.N/2]
	b.ReportMetric(float64(short)/float64(jwt), "jwt/short")
	b.ReportMetric(float64(long)/float64(jwt), "jwt/long")
	b.ReportMetric(float64(jwt.Microseconds()), "µs/jwt-call")
}
