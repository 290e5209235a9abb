package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestParamHeadersAtTheFront: where tools are listed with their schemas, the headers that repeat
// arguments must say the same (2026-07-28). The server behind sees no call that says two things.
func TestParamHeadersAtTheFront(t *testing.T) {
	p := startProtected(t)
	call := func(mode, tool, arguments string, header ...string) (int, string) {
		resp, body := p.do("POST", "/mcp?mode="+mode, staticToken, fmt.Sprintf(
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, arguments),
			append(header, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)...)
		return resp.StatusCode, body
	}
	const eu = `{"region":"eu"}`
	for _, mode := range []string{"plain", "auto"} {
		if status, body := call(mode, "up__region", eu, "Mcp-Param-Region", "eu"); status != http.StatusOK || !strings.Contains(body, `"text":"eu"`) {
			t.Errorf("%s, the same: %d %s", mode, status, body)
		}
		for what, header := range map[string][]string{"another": {"Mcp-Param-Region", "us"}, "none": {}, "no base64": {"Mcp-Param-Region", "=?base64?%%?="}} {
			if status, body := call(mode, "up__region", eu, header...); status != http.StatusBadRequest || !strings.Contains(body, `"code":-32020`) {
				t.Errorf("%s, %s: %d %s", mode, what, status, body)
			}
		}
	}
	// The stripped list of proxy mode asks for no header, nor do meta-tools.
	if status, body := call("proxy", "up__region", eu); status != http.StatusOK || strings.Contains(body, `"error"`) {
		t.Errorf("proxy: %d %s", status, body)
	}
}
