package app

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/proctest"
	"github.com/weir-mcp/weir/internal/store/storetest"
)

const sharedKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// openShares opens the stores of several configurations at the same time.
func openShares(t *testing.T, texts ...string) []*Store {
	t.Helper()
	type opened struct {
		i   int
		s   *Store
		err error
	}
	all := make(chan opened)
	for i, text := range texts {
		c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			s, err := OpenStore(t.Context(), c, slog.New(slog.DiscardHandler))
			all <- opened{i, s, err}
		}()
	}
	stores := make([]*Store, len(texts))
	for range texts {
		o := <-all
		if o.err != nil {
			t.Error(o.err)
		}
		stores[o.i] = o.s
		t.Cleanup(o.s.Close)
	}
	if t.Failed() {
		t.FailNow()
	}
	return stores
}

// oneStore tests that several gateways have one store and one key.
func oneStore(t *testing.T, a, b *Store) {
	t.Helper()
	storetest.Follow(t, a.docs, b.docs)
	storetest.Bus(t, a.shared.bus, b.shared.bus)
	sealed := a.key.Seal("x", []byte("plain"), nil)
	if plain, ok := b.key.Open("x", sealed, nil); !ok || string(plain) != "plain" {
		t.Error("one node does not open what another has sealed")
	}
}

// TestStoreNATS: gateways with store: nats:// share what is in a NATS elsewhere.
func TestStoreNATS(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, Username: "weir", Password: "pass-word"})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server has not started")
	}
	node := func(name, password string) string {
		return fmt.Sprintf("store: {at: 'nats://weir:%s@%s', max_bytes: 16MB}\ncluster: {node: %s, key: %q, listen: '127.0.0.1:0'}", password, s.Addr(), name, sharedKey)
	}
	stores := openShares(t, node("a", "pass-word"), node("b", "pass-word"))
	oneStore(t, stores[0], stores[1])

	c, _, err := config.Parse("weir.yaml", []byte(node("c", "wrong-word")), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused, err := OpenStore(t.Context(), c, slog.New(slog.DiscardHandler))
	if err == nil || strings.Contains(err.Error(), "wrong-word") {
		t.Errorf("a wrong password: %v", err)
	}
	refused.Close()
}

// TestStoreCluster: three gateways with store: cluster:DIR keep the documents themselves.
func TestStoreCluster(t *testing.T) {
	dir := t.TempDir()
	addresses, err := proctest.FreeAddresses(3)
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for i, name := range []string{"a", "b", "c"} {
		members = append(members, name+"@"+addresses[i])
	}
	var texts []string
	for _, name := range []string{"a", "b", "c"} {
		texts = append(texts, fmt.Sprintf("store: {at: %q, max_bytes: 16MB}\ncluster: {node: %s, key: %q, listen: '127.0.0.1:0', members: [%s]}",
			"cluster:"+filepath.Join(dir, name), name, sharedKey, strings.Join(members, ", ")))
	}
	stores := openShares(t, texts...)
	oneStore(t, stores[0], stores[2])
}
