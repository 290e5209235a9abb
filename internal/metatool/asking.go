package metatool

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// asks returns the function that marks the questions of a server as the server's. The client of a
// gateway shows one name for all servers, and a person would take them for questions of the gateway:
//
//	server ── elicitation/create "Allow pay?" ──▶ "Server evil asks: Allow pay?" ──▶ agent
//
// It is used by both eras, in every mode.
func (a *caller) asks(upstream string) func(method string, params json.RawMessage) (json.RawMessage, error) {
	return func(method string, params json.RawMessage) (json.RawMessage, error) {
		if method != "elicitation/create" && method != "sampling/createMessage" {
			return params, nil
		}
		if len(params) == 0 {
			params = json.RawMessage("{}")
		}
		q := asking{head: "Server " + strings.ReplaceAll(visible.Escaped(upstream), "\n", " ") + " asks:"}
		var out json.RawMessage
		read, err := rawjson.AppendRewritten(nil, params) // an agent must not read another member than weir
		if err == nil {
			err = rawjson.CheckCase(read, "mode", "message", "url", "systemPrompt", "messages", "includeContext")
		}
		switch {
		case err != nil:
		case method == "elicitation/create":
			out, err = q.elicit(read)
		default:
			out, err = q.sample(read)
		}
		if err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: %v", method, err)
		}
		if q.mimic {
			if _, told := a.state.mimics.LoadOrStore(upstream, true); !told {
				a.logger.Warn("a server asks a question that begins as those of the gateway do; people see who asks", "upstream", upstream)
			}
		}
		return out, nil
	}
}

// Findings returns the servers that asked questions such as weir's own, since this State started.
func (s *State) Findings() (all []catalog.Finding) {
	s.mimics.Range(func(upstream, _ any) bool {
		all = append(all, catalog.Finding{Kind: catalog.FoundMimic, Upstream: upstream.(string), Name: upstream.(string), Message: "a question of this server begins as those of the gateway do; people see who asks, and its owner should say why"})
		return true
	})
	slices.SortFunc(all, func(a, b catalog.Finding) int { return strings.Compare(a.Upstream, b.Upstream) })
	return all
}

// asking makes one question.
type asking struct {
	head  string
	said  bool // a text has the head
	mimic bool // a text starts as a question of weir's own does
}

// elicit makes a question to a person.
func (q *asking) elicit(params json.RawMessage) (json.RawMessage, error) {
	if rawjson.Text(rawjson.Get(params, "mode")) == "url" {
		if err := checkAddress(rawjson.Text(rawjson.Get(params, "url"))); err != nil {
			return nil, err
		}
	}
	message := visible.Escaped(rawjson.Text(rawjson.Get(params, "message")))
	q.look(message)
	return rawjson.Set(primitive.VisibleTexts(params), "message", rawjson.Quote(q.quoted(message)))
}

// quoted puts the head before a message. Of several lines each is a quotation, so that none of them can
// be taken for a line of weir's own.
func (q *asking) quoted(message string) string {
	if !strings.Contains(message, "\n") {
		return strings.TrimSpace(q.head + " " + message)
	}
	return q.head + "\n> " + strings.ReplaceAll(message, "\n", "\n> ")
}

// checkAddress refuses pages that a browser must not open for a server.
func checkAddress(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || visible.Text(text) != text:
		return errBadPage
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errBadPage
	}
	return nil
}

var errBadPage = mcp.Errorf(mcp.KindInvalidParams, "url must be an http or https URL with a host, and without invisible characters")

// sample makes a request for a completion. The first text of its messages has the head, or else the
// system prompt. A server gets no context of the client's other servers.
func (q *asking) sample(params json.RawMessage) (out json.RawMessage, err error) {
	out = params
	if context := rawjson.Get(out, "includeContext"); context != nil && rawjson.Text(context) != "none" {
		if out, err = rawjson.Set(out, "includeContext", []byte(`"thisServer"`)); err != nil {
			return nil, err
		}
	}
	if messages := rawjson.Get(out, "messages"); rawjson.IsArray(messages) {
		list, err := each(messages, func(message []byte) ([]byte, error) {
			content := rawjson.Get(message, "content")
			switch {
			case rawjson.IsObject(content):
				content, err = q.block(content)
			case rawjson.IsArray(content):
				content, err = each(content, q.block)
			default:
				return message, nil
			}
			if err != nil {
				return nil, err
			}
			return rawjson.Set(message, "content", content)
		})
		if err == nil {
			out, err = rawjson.Set(out, "messages", list)
		}
		if err != nil {
			return nil, err
		}
	}
	prompt := rawjson.Get(out, "systemPrompt")
	if prompt == nil && q.said {
		return out, nil
	}
	return rawjson.Set(out, "systemPrompt", rawjson.Quote(q.prompt(rawjson.Text(prompt))))
}

// block makes one block of a message.
func (q *asking) block(block []byte) ([]byte, error) {
	text := rawjson.Get(block, "text")
	if text == nil || rawjson.Text(rawjson.Get(block, "type")) != "text" {
		return block, nil
	}
	return rawjson.Set(block, "text", rawjson.Quote(q.prompt(rawjson.Text(text))))
}

// prompt makes a text for a model. The first one gets the head. Its lines stay as they are, except those
// that look like a head.
func (q *asking) prompt(text string) string {
	lines := strings.Split(visible.Escaped(text), "\n")
	for i, line := range lines {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "Server ") && strings.Contains(line, " asks:") {
			lines[i] = "> " + line
		}
	}
	text = strings.Join(lines, "\n")
	if q.said {
		return text
	}
	q.said = true
	q.look(text)
	return strings.TrimSpace(q.head + "\n" + text)
}

// look notes a text that starts as a question of weir's own does.
func (q *asking) look(text string) {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, own := range []string{"allow ", "server ", "the server ", "weir"} {
		q.mimic = q.mimic || strings.HasPrefix(text, own)
	}
}

// each returns an array with its elements changed.
func each(list []byte, change func(element []byte) ([]byte, error)) ([]byte, error) {
	var problem error
	w := rawjson.NewWriter(nil).Array()
	err := rawjson.EachElement(list, func(element []byte) bool {
		var out []byte
		if out, problem = change(element); problem == nil {
			w.Raw(out)
		}
		return problem == nil
	})
	if problem != nil {
		err = problem
	}
	return w.EndArray().Bytes(), err
}
