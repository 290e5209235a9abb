package nodestore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
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
			s, err := Open(t.Context(), c, slog.New(slog.DiscardHandler))
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
	storetest.Bus(t, a.Bus(), b.Bus())
	sealed := a.Key().Seal("x", []byte("plain"), nil)
	if plain, ok := b.Key().Open("x", sealed, nil); !ok || string(plain) != "plain" {
		t.Error("one node does not open what another has sealed")
	}
}

// TestStoreNATS: gateways with store: nats:// share what is in a NATS elsewhere.
func TestStoreNATS(t *testing.T) {
	s := natstest.Start(t, server.Options{Username: "weir", Password: "pass-word"})
	node := func(name, password string) string {
		return fmt.Sprintf("store: {at: 'nats://weir:%s@%s', max_bytes: 16MB}\ncluster: {node: %s, key: %q, listen: '127.0.0.1:0'}", password, s.At(), name, sharedKey)
	}
	stores := openShares(t, node("a", "pass-word"), node("b", "pass-word"))
	oneStore(t, stores[0], stores[1])

	c, _, err := config.Parse("weir.yaml", []byte(node("c", "wrong-word")), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	refused, err := Open(t.Context(), c, slog.New(slog.NewTextHandler(&log, nil)))
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

// TestDocumentedServers: NATS takes the configurations of docs/cluster.md.
func TestDocumentedServers(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "pass-word")
	page, err := os.ReadFile("../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	routes := map[int]bool{}
	for i, block := range strings.Split(string(page), "```") {
		text, ok := strings.CutPrefix(block, "text\n# nats.conf")
		if i%2 == 0 || !ok {
			continue
		}
		o := &server.Options{}
		if err := o.ProcessConfigString("#" + text); err != nil {
			t.Fatal(err)
		}
		if !o.JetStream || !o.SyncAlways || o.Port != 4222 || o.Username != "weir" || o.Password != "pass-word" {
			t.Errorf("%s is %+v", text, o)
		}
		routes[len(o.Routes)] = true
	}
	if !routes[0] || !routes[3] {
		t.Errorf("servers with so many routes: %v", routes)
	}
}

// TestStoreRefusesASetting: a setting that NATS refuses for good ends the start, with an error that names the setting.
func TestStoreRefusesASetting(t *testing.T) {
	s := natstest.Start(t, server.Options{JetStreamMaxStore: 64 << 20})
	for setting, want := range map[string]string{"replicas: 3, max_bytes: 16MB": "store.replicas", "max_bytes: 1GB": "store.max_bytes"} {
		c, _, err := config.Parse("weir.yaml", fmt.Appendf(nil, "store: {at: 'nats://%s', %s}\ncluster: {node: a, key: %q, listen: '127.0.0.1:0'}", s.At(), setting, sharedKey), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		opened, err := Open(t.Context(), c, slog.New(slog.DiscardHandler))
		if err == nil {
			opened.Close()
		}
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

// TestStoreThreeServers: three gateways over three NATS servers have one store, events and copies of results. A gateway
// that starts before there is a majority of the servers joins when there is one.
func TestStoreThreeServers(t *testing.T) {
	servers := natstest.Three(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, "nats://"+s.At())
	}
	var texts []string
	for _, name := range []string{"a", "b", "c"} {
		texts = append(texts, fmt.Sprintf("store: {at: %q, max_bytes: 80MB}\ncluster: {node: %s, key: %q, listen: '127.0.0.1:0'}\nevents: {stream: true}\nartifacts: {backup: true}",
			strings.Join(urls, ","), name, sharedKey))
	}
	first := openShares(t, texts[0])[0]
	inc := first.node.Inc()
	stores := openShares(t, texts[1:]...)
	for end := time.Now().Add(time.Minute); !first.node.Ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first node has not joined")
		}
	}
	if first.node.Inc() != inc {
		t.Error("the node has joined with another INC")
	}
	oneStore(t, first, stores[1])
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := stores[0].Blobs().Put(t.Context(), "first", strings.NewReader("x"), time.Minute)
		if err == nil {
			err = stores[1].Blobs().Delete(t.Context(), "first")
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("copies of results: %v", err)
		}
	}
	storetest.Blobs(t, stores[0].Blobs(), stores[1].Blobs(), 1<<20)
	first.Sink()(happened("ann"))
	if all := readStream(t, stores[1].events, 1); len(all) != 1 || all[0].Node != "a" {
		t.Errorf("the events of another member: %+v", all)
	}
}
