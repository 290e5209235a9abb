package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/mcp"
)

// Secrets of every kind, none of which may be told.
var (
	configured = "conf1gured-s3cret"
	leaks      = []string{configured, "sk-abcdefghijklmnopqrstuvwx", "ann:passw0rd@", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "ghp_0123456789abcdefghijABCDEFGHIJ", "AKIAABCDEFGHIJKLMNOP", "xoxb-1234567890-abc"}
)

func leaking(format string) string {
	return strings.NewReplacer("%0", leaks[0], "%1", leaks[1], "%2", "https://"+leaks[2]+"h/x", "%3", "Bearer "+leaks[3], "%4", leaks[4], "%5", leaks[5], "%6", leaks[6]).Replace(format)
}

func wantClean(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range leaks {
		if strings.Contains(text, secret) {
			t.Errorf("%s tells %s: %s", where, secret, text)
		}
	}
	if !strings.Contains(text, redact.Mark[:7]) { // the rest may have been cut
		t.Errorf("%s: nothing was removed from %s", where, text)
	}
}

const everySecret = "%0 %1 %2 %3 %4 %5 %6"

func TestErrorsTellNoSecrets(t *testing.T) {
	var log bytes.Buffer
	h := metatooltest.New(t, metatool.Options{Redactor: result.NewRedactor([]string{configured}), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	text := leaking("could not log in with " + everySecret)
	h.Add("x", calltest.Fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: %w", text, errors.New(text))), `{"name":"t","description":"d"}`)
	e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`))
	wantClean(t, "the message", e.Message)
	wantClean(t, "the log", log.String())
	path := calltest.Failure(t, h.Tool(t, metatool.ToolBrowse, `{"path":"/`+leaks[1]+`"}`)).Path
	wantClean(t, "the path", path)
}

func TestLogTellsAllOnRequest(t *testing.T) {
	var log bytes.Buffer
	h := metatooltest.New(t, metatool.Options{LogUnredacted: true, Redactor: result.NewRedactor([]string{configured}), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	h.Add("x", calltest.Fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "with %s", configured)), `{"name":"t","description":"d"}`)
	s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	if !strings.Contains(log.String(), configured) || strings.Contains(s.Content[0].Text, configured) {
		t.Errorf("%s\n%+v", log.String(), s)
	}
}

// What is told of a result is clean; the result itself is data.
func TestSummariesTellNoSecrets(t *testing.T) {
	long := strings.Repeat("And so on and so forth. ", 200)
	quoted := func(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }
	for _, tt := range []struct{ name, text string }{
		{"text", leaking("The keys are " + everySecret + ".\nkey: %0\nother: %4\n\n" + long)},
		{"JSON", `{"a":"` + leaking("%1") + `","b":"` + leaking("%0") + `","c":"` + leaking("%4") + `","d":"` + long + `"}`},
		{"table", `[{"a":"` + leaking(everySecret) + `","b":"` + leaking("%4") + `"},{"a":"` + leaking("%3") + `","b":"` + long + `"}]`},
		{"array", `["` + leaking("%1") + `","` + leaking("%5") + `","` + long + `"]`},
		{"a secret at the cut", strings.Repeat("x", 500-10) + " " + leaking("%0 %1") + long},
		{"a secret at the cut of a cell", `[{"a":"` + strings.Repeat("y", 20) + leaking(" %0") + `"},{"a":"` + long + `"}]`},
	} {
		for _, format := range []result.Format{result.FormatText, result.FormatJSON} {
			h := metatooltest.New(t, metatool.Options{Format: format, Redactor: result.NewRedactor([]string{configured})})
			h.Add("x", calltest.Say(calltest.Text(tt.text)), `{"name":"t","description":"d"}`)
			s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
			if format == result.FormatJSON {
				if err := json.Unmarshal(s.StructuredContent, &s.Env); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.Env.Artifacts) != 1 {
				t.Fatalf("%s: %+v", tt.name, s)
			}
			told := s.Content[0].Text + string(s.StructuredContent) + s.Env.Summary + strings.Join(s.Env.Facts, "\n")
			if format == result.FormatJSON {
				told += redact.Mark // samples, which had them, are in the text form only
			}
			wantClean(t, tt.name, told)
			for _, half := range []string{configured[:12], leaks[1][:12]} {
				if all := quoted(s.Content[0].Text) + s.Env.Summary; strings.Contains(all, half) {
					t.Errorf("%s: half a secret is left: %s", tt.name, all)
				}
			}
			_, data, err := h.Options.Artifacts.(*artifact.Local).Get(t.Context(), "ann", s.Env.Artifacts[0].Handle)
			if err != nil || string(data) != tt.text {
				t.Errorf("%s: the artifact is not what the server said: %v", tt.name, err)
			}
		}
	}
}

func TestSmallResultsPassAndTheirEnvelopeIsClean(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Redactor: result.NewRedactor([]string{configured})})
	text := leaking("first: " + everySecret)
	h.Add("x", calltest.Say(calltest.Text(text)), `{"name":"t","description":"d"}`)
	s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	if s.Content[0].Text != text {
		t.Errorf("the content was touched: %q", s.Content[0].Text)
	}
	s = h.AsJSON(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	wantClean(t, "the summary", s.Env.Summary)
	wantClean(t, "the facts", strings.Join(s.Env.Facts, "\n"))
}

func TestResultsAreCleanOnRequest(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Redactor: result.NewRedactor([]string{configured}), RedactResults: true})
	long := strings.Repeat("And so on and so forth. ", 200)
	h.Add("x", calltest.Say(calltest.Text(leaking(everySecret)+long)), `{"name":"t","description":"d"}`)
	s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	_, data, err := h.Options.Artifacts.(*artifact.Local).Get(t.Context(), "ann", s.Env.Artifacts[0].Handle)
	if err != nil {
		t.Fatal(err)
	}
	wantClean(t, "the artifact", string(data))
}

// With RedactResults, values under the names of credentials are removed as from errors: from cards,
// results that pass, errors of tools and descriptions of held-back results. Others, such as the token
// of the next page, stay.
func TestCredentialsByNameOnRequest(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{RedactResults: true})
	const text = "dsn: host=db password=hunter2 next_token=page17 access_token=abcdef99 "
	long := strings.Repeat("And so on and so forth. ", 200)
	tool := func(name string) string {
		return `{"name":"` + name + `","description":"Uses password=hunter2 of the team","inputSchema":{"type":"object"}}`
	}
	h.Add("pass", calltest.Say(`{"content":[{"type":"text","text":"`+text+`"}],"structuredContent":{"password":"hunter2","next_token":"page17","db":{"client_secret": "abcdef"}}}`), tool("t"))
	h.Add("fail", calltest.Say(`{"content":[{"type":"text","text":"`+text+`"}],"isError":true}`), tool("t"))
	h.Add("hold", calltest.Say(calltest.Text(text+long)), tool("t"))
	answers := map[string]string{"a card": h.Tool(t, metatool.ToolBrowse, `{"path":"/pass/t"}`).Content[0].Text}
	for _, server := range []string{"pass", "fail", "hold"} {
		s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, server, "t")+`","args":{}}`)
		answers[server] = s.Content[0].Text + string(s.StructuredContent)
		if !strings.Contains(answers[server], "next_token=page17") {
			t.Errorf("%s: %s", server, answers[server])
		}
	}
	if !strings.Contains(answers["pass"], `"next_token":"page17"`) {
		t.Errorf("structuredContent: %s", answers["pass"])
	}
	for where, answer := range answers {
		if strings.Contains(answer, "hunter2") || strings.Contains(answer, "abcdef") || !strings.Contains(answer, redact.Mark) {
			t.Errorf("%s: %s", where, answer)
		}
	}
}

// With RedactResults no definition tells a secret: cards, schemas and what proxy
// mode lists. The id stays what it is.
func TestDefinitionsAreCleanOnRequest(t *testing.T) {
	quoted := strings.ReplaceAll(leaking(everySecret), `"`, `\"`)
	tool := `{"name":"t","description":"` + leaking("uses %0 of the team") + `","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"` + quoted + `"}},"required":["a"]}}`
	for _, mode := range []metatool.Mode{metatool.ModeGateway, metatool.ModeProxy} {
		h := metatooltest.New(t, metatool.Options{Mode: mode, ExposeHydrate: true, Redactor: result.NewRedactor([]string{configured}), RedactResults: true})
		h.Add("x", calltest.Echo, tool)
		id := h.ID(t, "x", "t")
		answers := map[string]string{
			"the definition": h.Tool(t, metatool.ToolHydrate, `{"tool_id":"`+id+`"}`).Content[0].Text,
			"the schema":     h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{}}`).Content[0].Text,
		}
		if mode == metatool.ModeGateway {
			answers["a card"] = h.Tool(t, metatool.ToolBrowse, `{"path":"/x/t"}`).Content[0].Text
			form := h.Raw(t, `{"name":"tool_browse","arguments":{"query":"team"},"_meta":{"weir/format":"json"}}`)
			answers["a card in JSON"] = string(form.StructuredContent)
		} else {
			list, err := h.Ask(t, "tools/list", `{}`)
			if err != nil {
				t.Fatal(err)
			}
			answers["the list"] = string(list)
		}
		for where, text := range answers {
			wantClean(t, where, text)
			if !strings.Contains(text, id) {
				t.Errorf("%s: no %s in %s", where, id, text)
			}
		}
	}
}
