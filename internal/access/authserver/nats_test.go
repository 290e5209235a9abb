package authserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
)

// overNATS returns two nodes with connections of their own to one NATS server, and moves their clocks.
func overNATS(t *testing.T) (nodes [2]*world, later func(d time.Duration)) {
	t.Helper()
	at := natstest.Start(t, server.Options{}).At()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	for i := range nodes {
		conn, err := nats.Connect("nats://" + at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		docs, _, err := natsstore.Open(t.Context(), conn, natsstore.Options{Bucket: "weir", Changes: "weir.d", Replicas: 1, MaxBytes: 32 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(docs.Close)
		w := newWorld(t, nil)
		w.docs, w.o.Docs, w.o.Now = docs, docs, now
		w.o.Proofs = dpop.NewVerifier(dpop.Options{Now: now, Once: func(ctx context.Context, proof string, ttl time.Duration) (bool, error) {
			_, err := docs.Set(ctx, store.ProofKeys+store.Hash(proof), nil, 0, ttl)
			if errors.Is(err, store.ErrConflict) {
				return false, nil
			}
			return err == nil, err
		}})
		w.s = w.node()
		nodes[i] = w
	}
	return nodes, func(d time.Duration) { ahead.Add(int64(d)) }
}

// refuses reports whether a node refuses a token, or does within the seconds that news over NATS may take.
func (w *world) refuses(token string) bool {
	for range 500 {
		if w.opens(token, "/mcp") != nil {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// atOnce calls f for both nodes, several times at the same moment.
func atOnce(nodes [2]*world, times int, f func(w *world)) {
	var all sync.WaitGroup
	for i := range 2 * times {
		all.Go(func() { f(nodes[i%2]) })
	}
	all.Wait()
}

// TestNATSKeysAreShared: nodes that start together sign with one key, which both publish.
func TestNATSKeysAreShared(t *testing.T) {
	nodes, _ := overNATS(t)
	var mu sync.Mutex
	var tokens []string
	atOnce(nodes, 4, func(w *world) {
		a := w.post(tokenPath, url.Values{"grant_type": {"client_credentials"}, "client_id": {"robot"}, "client_secret": {secret}, "resource": {base + "/mcp"}})
		mu.Lock()
		defer mu.Unlock()
		tokens = append(tokens, a.text("access_token"))
	})
	for _, token := range tokens {
		for i, w := range nodes {
			if err := w.opens(token, "/mcp"); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		}
	}
	first, second := nodes[0].ask("GET", base+keysPath, nil).Body.String(), nodes[1].ask("GET", base+keysPath, nil).Body.String()
	if first != second || strings.Count(first, `"kid"`) != 1 {
		t.Errorf("the keys %s and %s", first, second)
	}
}

// TestNATSCodes: a code of one node is exchanged at the other one, once for both. A second exchange ends the sign-in at
// both.
func TestNATSCodes(t *testing.T) {
	nodes, _ := overNATS(t)
	v := newVerifier()
	back := nodes[0].browse(request("app", appBack, v))
	a := nodes[1].exchange("app", appBack, v, back)
	if a.status != http.StatusOK || nodes[0].opens(a.text("access_token"), "/mcp") != nil {
		t.Fatal(a)
	}
	if b := nodes[0].exchange("app", appBack, v, back); b.text("error") != "invalid_grant" {
		t.Errorf("a second exchange: %v", b)
	}
	for i, w := range nodes {
		if !w.refuses(a.text("access_token")) || w.refresh("app", a.text("refresh_token")).text("error") != "invalid_grant" {
			t.Errorf("node %d knows nothing of the second exchange", i)
		}
	}
	back = nodes[1].browse(request("app", appBack, v))
	var ok atomic.Int32
	atOnce(nodes, 5, func(w *world) {
		if w.exchange("app", appBack, v, back).status == http.StatusOK {
			ok.Add(1)
		}
	})
	if ok.Load() > 1 {
		t.Errorf("%d of ten exchanges have tokens", ok.Load())
	}
}

// TestNATSRefreshTokens: of refreshes at both nodes at the same moment one makes the next token, and none is taken for a
// theft. An old one at either node ends the sign-in at both.
func TestNATSRefreshTokens(t *testing.T) {
	nodes, later := overNATS(t)
	first := nodes[0].signedIn("mcp")
	var mu sync.Mutex
	next := map[string]bool{}
	atOnce(nodes, 4, func(w *world) {
		a := w.refresh("app", first.text("refresh_token"))
		mu.Lock()
		defer mu.Unlock()
		switch a.status {
		case http.StatusOK:
			next[a.text("refresh_token")] = true
		case http.StatusServiceUnavailable: // another node is at it
		default:
			t.Errorf("a refresh at the same moment: %v", a)
		}
	})
	if len(next) != 1 {
		t.Fatalf("the next tokens: %d", len(next))
	}
	var newest string
	for newest = range next {
	}
	second := nodes[1].refresh("app", newest)
	if second.status != http.StatusOK {
		t.Fatal(second)
	}
	later(31 * time.Second)
	if a := nodes[0].refresh("app", newest); a.text("error") != "invalid_grant" {
		t.Errorf("an old refresh token at the other node: %v", a)
	}
	for i, w := range nodes {
		if !w.refuses(second.text("access_token")) || w.refresh("app", second.text("refresh_token")).text("error") != "invalid_grant" {
			t.Errorf("node %d knows nothing of the theft", i)
		}
	}
	if told := strings.Join(nodes[0].told, ","); !strings.Contains(told, "reused account:ann") {
		t.Errorf("told %q", told)
	}
}

// TestNATSProofs: a DPoP proof counts once for both nodes.
func TestNATSProofs(t *testing.T) {
	nodes, _ := overNATS(t)
	key := dpop.NewKey()
	at, err := url.Parse(base + tokenPath)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Proof("POST", at, "", "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var ok atomic.Int32
	atOnce(nodes, 3, func(w *world) {
		a := w.post(tokenPath, url.Values{"grant_type": {"client_credentials"}, "client_id": {"robot"}, "client_secret": {secret}, "resource": {base + "/mcp"}}, "DPoP", proof)
		switch {
		case a.status == http.StatusOK:
			ok.Add(1)
		case a.text("error") != "invalid_dpop_proof":
			t.Errorf("%v", a)
		}
	})
	if ok.Load() != 1 {
		t.Errorf("a proof counts %d times", ok.Load())
	}
}
