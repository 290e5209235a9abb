package clients

import (
	"strings"
	"testing"
)

// TestProfileEntries: every client's entry reaches the profile, by its URL or by weir attach; an entry
// keeps its profile until another one is chosen, and the whole catalog can be chosen, too.
func TestProfileEntries(t *testing.T) {
	url := How{URL: "http://127.0.0.1:8088/mcp?mode=plain"}
	command := How{Command: []string{"/usr/bin/weir"}, Known: []string{"http://127.0.0.1:8088/mcp"}}
	team, sre, whole := "team", "sre", ""
	for _, c := range All() {
		if c.Pasted() {
			continue
		}
		for _, first := range []How{url, command} {
			var doc []byte
			for step, chosen := range []struct {
				how     How
				profile *string
				want    string
			}{{first, nil, ""}, {first, &team, "team"}, {command, nil, "team"}, {url, nil, "team"}, {first, &sre, "sre"}, {first, &whole, ""}} {
				how := chosen.how
				how.Profile = chosen.profile
				edits, err := c.Connect(doc, how, nil, machine)
				if err == nil {
					doc, _, err = c.Apply(doc, edits)
				}
				if err != nil {
					t.Fatalf("%s, step %d: %v", c.ID, step, err)
				}
				servers, _, err := Servers(c, doc, machine)
				if err != nil || len(servers) != 1 || !how.IsOurs(servers[0]) || how.profileOf(servers[0]) != chosen.want {
					t.Fatalf("%s, step %d: want the profile %q, %v\n%s", c.ID, step, chosen.want, err, doc)
				}
				if again, err := c.Connect(doc, how, nil, machine); err != nil || len(again) != 0 {
					t.Errorf("%s, step %d: connecting again plans %v, %v", c.ID, step, again, err)
				}
			}
		}
		url.Profile = &team
		text, _, err := c.Snippet(url)
		if err != nil || !strings.Contains(text, "/mcp/team?mode=plain") && !strings.Contains(text, "--profile") {
			t.Errorf("%s: %v\n%s", c.ID, err, text)
		}
		url.Profile = nil
	}
}
