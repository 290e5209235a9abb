package natsstore_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/clusterkey"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsserver"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// three starts a cluster of three servers in this process.
func three(t testing.TB) (servers [3]*natsserver.Server) {
	t.Helper()
	return threeFor(t, nil)
}

// threeFor is three with servers that take clients at addresses, if there are any.
func threeFor(t testing.TB, clients []string) (servers [3]*natsserver.Server) {
	t.Helper()
	key, err := clusterkey.Parse(strings.Repeat(hex.EncodeToString([]byte{7}), 32))
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := proctest.FreeAddresses(len(servers))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	failed := make(chan error, len(servers))
	for i := range servers {
		var others []string
		for j, a := range addresses {
			if j != i {
				others = append(others, a)
			}
		}
		listen, err := net.ResolveTCPAddr("tcp", addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		node := fmt.Sprint("node", i)
		c := &natsserver.Cluster{Name: "weir", Node: node, Listen: listen, Members: others,
			TLS: clusterkey.NewAuthority(node, key, nil, nil).TLS(), NKey: key.NKey(), Sign: key.Sign}
		if clients != nil {
			if c.Clients, err = net.ResolveTCPAddr("tcp", clients[i]); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			s, err := natsserver.Open(natsserver.Options{Dir: filepath.Join(dir, node), MaxBytes: 256 << 20, Late: true, Cluster: c})
			servers[i] = s
			failed <- err
		}()
	}
	for range servers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, s := range servers {
			s.Close()
		}
	})
	return servers
}

// replicated opens the documents of each server, as soon as the servers have elected a leader.
func replicated(t testing.TB, servers [3]*natsserver.Server) (docs [3]*natsstore.Docs) {
	t.Helper()
	for i, s := range servers {
		d, _, err := natsstore.Open(t.Context(), s.Conn(), natsstore.Options{Bucket: "weir_weir", Changes: "weir.weir.d", Replicas: 3, MaxBytes: 64 << 20, Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		docs[i] = d
		t.Cleanup(d.Close)
	}
	return docs
}

// TestReplicas: documents, messages and blobs of three servers keep the contract, also where one
// server's changes are another's to see. The loss of a server loses nothing.
func TestReplicas(t *testing.T) {
	t.Parallel()
	servers := three(t)
	docs := replicated(t, servers)
	storetest.Contract(t, docs[0])
	storetest.Follow(t, docs[0], docs[1])
	storetest.Change(t, docs[2])

	var buses [2]*natsstore.Bus
	for i := range buses {
		buses[i] = natsstore.NewBus(servers[i].Conn())
		defer buses[i].Close()
	}
	storetest.Bus(t, buses[0], buses[1])

	var blobs [2]*natsstore.Blobs
	for i := range blobs {
		var err error
		blobs[i], err = natsstore.OpenBlobs(t.Context(), servers[i].Conn(), natsstore.Options{Bucket: "weir_weir_blobs", Replicas: 3, MaxBytes: 128 << 20})
		if err != nil {
			t.Fatal(err)
		}
	}
	storetest.Blobs(t, blobs[0], blobs[1], 8<<20)

	acked, err := docs[1].Set(t.Context(), "kept", []byte("x"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	servers[0].Close()
	var doc store.Doc
	for end := time.Now().Add(time.Minute); ; { // a busy machine elects slowly
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // without a leader there is no answer
		doc, err = store.Change(ctx, docs[1], "kept", func(now store.Doc) ([]byte, time.Duration, error) {
			if string(now.Value) == "xy" {
				return nil, 0, store.ErrKeep
			}
			if now.Rev != acked {
				t.Errorf("the loss of a server changed %+v", now)
			}
			return append(now.Value, 'y'), 0, nil
		})
		cancel()
		if !errors.Is(err, store.ErrUnavailable) || time.Now().After(end) {
			break
		}
	}
	if err != nil || string(doc.Value) != "xy" {
		t.Errorf("with two of three servers: %+v, %v", doc, err)
	}
	began := time.Now()
	if _, err := docs[0].Get(t.Context(), "kept"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("at the server that has ended: %v after %v", err, time.Since(began))
	}
}
