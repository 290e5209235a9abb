package app

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
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

// startNATS starts a NATS server with JetStream, which ends with the test.
func startNATS(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.JetStream, o.StoreDir, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, t.TempDir(), true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server has not started")
	}
	return s
}

// TestStoreNATS: gateways with store: nats:// share what is in a NATS elsewhere.
func TestStoreNATS(t *testing.T) {
	s := startNATS(t, server.Options{Username: "weir", Password: "pass-word"})
	node := func(name, password string) string {
		return fmt.Sprintf("store: {at: 'nats://weir:%s@%s', max_bytes: 16MB}\ncluster: {node: %s, key: %q, listen: '127.0.0.1:0'}", password, s.Addr(), name, sharedKey)
	}
	stores := openShares(t, node("a", "pass-word"), node("b", "pass-word"))
	oneStore(t, stores[0], stores[1])

	c, _, err := config.Parse("weir.yaml", []byte(node("c", "wrong-word")), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	refused, err := OpenStore(t.Context(), c, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(log.String(), "NATS refuses the credentials of this node"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) { // the first attempt may not be answered in time
			t.Fatalf("a wrong password: %s", log.String())
		}
	}
	if text := log.String(); strings.Contains(text, "wrong-word") {
		t.Errorf("the log has the password: %s", text)
	}
	if joined, err := cluster.Joined(refused.node); joined || err != nil {
		t.Errorf("a wrong password: joined %v %v", joined, err)
	}
	refused.Close()
}

// TestStoreRefusesASetting: a setting that NATS refuses for good ends the start, with an error that names the setting.
func TestStoreRefusesASetting(t *testing.T) {
	s := startNATS(t, server.Options{JetStreamMaxStore: 64 << 20})
	for setting, want := range map[string]string{"replicas: 3, max_bytes: 16MB": "store.replicas", "max_bytes: 1GB": "store.max_bytes"} {
		c, _, err := config.Parse("weir.yaml", fmt.Appendf(nil, "store: {at: 'nats://%s', %s}\ncluster: {node: a, key: %q, listen: '127.0.0.1:0'}", s.Addr(), setting, sharedKey), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		opened, err := OpenStore(t.Context(), c, slog.New(slog.DiscardHandler))
		opened.Close()
		if !errors.Is(err, natsstore.ErrSetting) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: after %v: %v", setting, time.Since(began), err)
		}
	}
}

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex // guards below
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestStoreCluster: three gateways with store: cluster:DIR keep the documents themselves. One that starts alone joins when
// there is a majority. They have room for documents, events and copies of results, each as large as max_bytes. A further
// gateway with their key joins them, and one with another key is refused.
func TestStoreCluster(t *testing.T) {
	dir := t.TempDir()
	addresses, err := proctest.FreeAddresses(6)
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for i, name := range []string{"a", "b", "c"} {
		members = append(members, name+"@"+addresses[i])
	}
	var texts []string
	for i, name := range []string{"a", "b", "c"} {
		texts = append(texts, fmt.Sprintf("store: {at: %q, listen: %q, max_bytes: 80MB}\ncluster: {node: %s, key: %q, listen: '127.0.0.1:0', members: [%s]}\nevents: {stream: true}\nartifacts: {backup: true}",
			"cluster:"+filepath.Join(dir, name), addresses[3+i], name, sharedKey, strings.Join(members, ", ")))
	}
	alone := openShares(t, texts[0])[0]
	inc := alone.node.Inc()
	if joined, err := cluster.Joined(alone.node); joined || err != nil {
		t.Errorf("without a majority: joined %v %v", joined, err)
	}
	stores := openShares(t, texts[1:]...)
	for end := time.Now().Add(time.Minute); !alone.node.Ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first node has not joined")
		}
	}
	if alone.node.Inc() != inc {
		t.Error("the node has joined with another INC")
	}
	oneStore(t, alone, stores[1])
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := stores[0].shared.blobs.Put(t.Context(), "first", strings.NewReader("x"), time.Minute)
		if err == nil {
			err = stores[1].shared.blobs.Delete(t.Context(), "first")
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("copies of results: %v", err)
		}
	}
	storetest.Blobs(t, stores[0].shared.blobs, stores[1].shared.blobs, 1<<20)
	alone.sink()(happened("ann"))
	if all := readStream(t, stores[1].events, 1); len(all) != 1 || all[0].Node != "a" {
		t.Errorf("the events of another member: %+v", all)
	}

	further := func(key string) string {
		return fmt.Sprintf("store: {at: 'nats://%s', max_bytes: 80MB}\ncluster: {node: d, key: %q, listen: '127.0.0.1:0'}", strings.Join(addresses[3:], ","), key)
	}
	joined := openShares(t, further(sharedKey))[0]
	for end := time.Now().Add(time.Minute); !joined.node.Ready() || len(joined.node.Peers()) != 4; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the further gateway: ready %v, with %d nodes", joined.node.Ready(), len(joined.node.Peers()))
		}
	}
	storetest.Bus(t, stores[0].shared.bus, joined.shared.bus)
	c, _, err := config.Parse("weir.yaml", []byte(further("/"+sharedKey[1:])), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if refused, err := LookAtStore(t.Context(), c); !refused {
		t.Errorf("with another key: %v", err)
	}
}
