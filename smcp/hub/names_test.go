package hub_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/smcp/hub"
)

// A name that counts as one that is bound to a key is refused without the key, and who
// has it when the key comes is put out. Agents may have any name.
func TestTwinsOfBoundNames(t *testing.T) {
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	desk := []hub.Device{{Name: "desk", Key: pub}}
	h, url := start(t, hub.Options{Devices: desk})
	for _, name := range []string{"Desk", "DESK", " desk", "desk ", "ｄesk"} {
		p, err := newPeer(t, url, peerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ack := p.call("server:join_office", fmt.Sprintf(`{"role":"computer","name":%q,"office_id":"lab"}`, name))
		if !strings.HasPrefix(ack, "false") || !strings.Contains(ack, "counts as 'desk'") {
			t.Errorf("%q: %s", name, ack)
		}
	}
	join(t, url, peerOptions{}, "agent", "Desk", "lab")
	early := join(t, url, peerOptions{}, "computer", "Lab", "lab")
	h.SetAccess(nil, append(desk, hub.Device{Name: "lab", Key: pub}))
	select {
	case <-early.client.Done():
	case <-time.After(30 * time.Second):
		t.Error("a twin of a name that is bound now is still there")
	}
}

// Names and offices that people cannot tell from others are refused. Those of people pass.
func TestNamesThatLookLikeOthers(t *testing.T) {
	_, url := start(t, hub.Options{})
	ask := func(role, name, office string) string {
		t.Helper()
		p, err := newPeer(t, url, peerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.call("server:join_office", fmt.Sprintf(`{"role":%s,"name":%s,"office_id":%s}`, quoted(role), quoted(name), quoted(office)))
	}
	for _, name := range []string{"keyed\u200b", "ke\u00adyed", "k\u0435yed", "key\u202eed", "\ufeffkeyed", "keyed\U000e0041", "keyed\u3164", "keyed\u0085",
		"keyed\u2028", "key\ted", "ke\u03b3ed", "\U0001d424\u0435yed", "keyed\ufe0f"} {
		for what, ack := range map[string]string{"computer": ask("computer", name, "lab"), "agent": ask("agent", name, "lab"), "office": ask("computer", "a", name)} {
			if !strings.HasPrefix(ack, "false") || !strings.Contains(ack, "may have no invisible characters") {
				t.Errorf("%s %q: %s", what, name, ack)
			}
		}
	}
	for i, name := range []string{"keyed", "PC-Мария", "Schreibtisch von Müller", "अनुज का डेस्क", "می\u200cخواهم", "机1", "desk❤\ufe0f", "λ 2"} {
		if ack := ask("computer", name, fmt.Sprint("office", i)); !strings.HasPrefix(ack, "true") {
			t.Errorf("%q: %s", name, ack)
		}
	}
}

// quoted returns a text in JSON.
func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text
	}
	return string(raw)
}

// Options.Claim decides about Computers that could join, and again when who may
// connect has changed.
func TestClaimOfNames(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	barred := map[string]bool{"taken": true}
	h, url := start(t, hub.Options{
		Auth: hub.Static{Tokens: []hub.Token{{Name: "desks", SHA256: hashed("t-desk")}}},
		Claim: func(c hub.Claimant) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, fmt.Sprint(c.Office, " ", c.Name, " ", c.Principal, " ", c.Key != nil))
			if barred[c.Name] {
				return errors.New("it belongs to another")
			}
			return nil
		},
	})
	o := peerOptions{token: "t-desk"}
	join(t, url, o, "agent", "lab", "lab")
	p := join(t, url, o, "computer", "free", "lab")
	late, err := newPeer(t, url, o)
	if err != nil {
		t.Fatal(err)
	}
	if ack := late.call("server:join_office", `{"role":"computer","name":"taken","office_id":"lab"}`); !strings.Contains(ack, "it belongs to another: give this Computer another name") {
		t.Errorf("%s", ack)
	}
	if n := len(h.Members()); n != 2 {
		t.Errorf("%d members", n)
	}
	mu.Lock()
	if got := strings.Join(asked, ", "); got != "lab free desks false, lab taken desks false" {
		t.Errorf("asked about %s", got)
	}
	barred["free"] = true
	mu.Unlock()
	h.SetAccess(hub.Static{Tokens: []hub.Token{{Name: "desks", SHA256: hashed("t-desk")}}}, nil)
	select {
	case <-p.client.Done():
	case <-time.After(30 * time.Second):
		t.Error("who has lost its name is still there")
	}
}
