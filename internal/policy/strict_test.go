package policy_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// strictOptions are the options of a gateway by its configuration.
func strictOptions(t *testing.T, strict bool, more string) metatool.Options {
	t.Helper()
	c, _, err := config.Parse("weir.yaml", fmt.Appendf(nil, "strict: %t\n%smcpServers: {a: {command: a}}\n", strict, more), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var o metatool.Options
	policy.Controls(c, &o)
	return o
}

// TestStrictLog: operators have the causes of errors in full, and agents do not: spec/gateway §7, the first row 3.4.
func TestStrictLog(t *testing.T) {
	const secret = "conf1gured-s3cret"
	for _, strict := range []bool{false, true} {
		var log bytes.Buffer
		o := strictOptions(t, strict, "")
		o.Redactor, o.Logger = result.NewRedactor([]string{secret}), slog.New(slog.NewTextHandler(&log, nil))
		h := metatooltest.New(t, o)
		h.Add("x", calltest.Fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "with %s", secret)), `{"name":"t","description":"d"}`)
		s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
		if strings.Contains(log.String(), secret) != strict || !s.IsError || strings.Contains(s.Content[0].Text, secret) {
			t.Errorf("strict %t: the log %s, the agent %+v", strict, log.String(), s)
		}
	}
}

// TestStrictNames: proxy mode lists tools under their ids, and in URL-encoded form where the file says so:
// spec/gateway §7, the first row 4.1.
func TestStrictNames(t *testing.T) {
	for _, c := range []struct {
		strict bool
		more   string
		name   func(id string) string
	}{
		{false, "", func(string) string { return "files__read_file" }},
		{true, "", func(id string) string { return id }},
		{true, "proxy: {names: url_encoded}\n", func(id string) string { return strings.NewReplacer(":", "%3A", "#", "%23").Replace(id) }},
	} {
		o := strictOptions(t, c.strict, "mode: proxy\n"+c.more)
		o.Mode = metatool.ModeProxy
		h := metatooltest.New(t, o)
		h.Add("files", calltest.Echo, `{"name":"read_file","description":"d"}`)
		want := `{"name":"` + c.name(h.ID(t, "files", "read_file")) + `"`
		if list, err := h.Ask(t, "tools/list", "{}"); err != nil || !strings.Contains(string(list), want) {
			t.Errorf("strict %t, %s: %s, %v, want %s", c.strict, c.more, list, err, want)
		}
	}
}
