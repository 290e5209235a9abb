package office

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/config"
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// TestStaticTokens: a token is known by its hash alone, in either case, until it expires.
func TestStaticTokens(t *testing.T) {
	hash := hashOf
	auth := &config.Auth{Tokens: []config.Token{
		{Name: "ann", SHA256: hash("one"), Expires: "2027-01-01"}, {Name: "bob", SHA256: hash("two")}, {Name: "broken", SHA256: "zz"}, {Name: "short", SHA256: hash("three")[:62]},
		{Name: "upper", SHA256: strings.ToUpper(hash("four"))}, {Name: "none", SHA256: hash("")}, {Name: "zero", SHA256: strings.Repeat("0", 64)},
		{Name: "scoped", SHA256: hash("five"), Agents: []string{"x"}},
	}}
	before, after := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		bearer, name string
		at           time.Time
	}{
		{"one", "ann", before}, {"one", "", after}, {"two", "bob", after}, {"four", "upper", before}, {"three", "", before}, {"", "", before}, {"zz", "", before},
		{"one ", "", before}, {hash("one"), "", before}, {"five", "scoped", before},
	} {
		name := ""
		if got, err := access.Find(callers.Tokens(auth), tt.bearer, tt.at); err == nil {
			name = got.Name
		}
		if name != tt.name {
			t.Errorf("%q at %s is %q, want %q", tt.bearer, tt.at, name, tt.name)
		}
		peer, err := localPeer(auth, []string{"other", tt.bearer}, tt.at)
		if want := strings.TrimPrefix(tt.name, "scoped"); peer.Principal != want || (err == nil) != (want != "") {
			t.Errorf("a peer of the hub with %q at %s is %q, %v", tt.bearer, tt.at, peer.Principal, err)
		}
	}
	if peer, err := localPeer(&config.Auth{}, nil, before); peer.Principal != "local" || err != nil {
		t.Errorf("without auth a peer is %q, %v", peer.Principal, err)
	}
}
