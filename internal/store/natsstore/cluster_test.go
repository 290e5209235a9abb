package natsstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// replicated opens the documents of each server, as soon as the servers have elected a leader.
func replicated(t testing.TB, servers [3]*natstest.Server) (docs [3]*natsstore.Docs) {
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
	servers := natstest.Three(t)
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
