package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
	"github.com/weir-mcp/weir/internal/store/natsserver"
)

// Older builds kept the documents of file:DIR in the files of an embedded NATS server, in the folder
// olderFiles of DIR. importOlder renames it to importedFiles.
const (
	olderFiles    = "nats"
	importedFiles = "nats.imported"
)

// importOlder brings the documents of an older build into the file of the folder, once.
func importOlder(ctx context.Context, dir string, log *slog.Logger) error {
	from := filepath.Join(dir, olderFiles)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if there, err := filestore.Exists(dir); there || err != nil {
		return err
	}
	docs, err := readOlder(ctx, dir, log)
	if err == nil {
		err = filestore.Create(dir, docs)
	}
	if err != nil {
		return fmt.Errorf("import the documents of an older build from %s: %w", from, err)
	}
	log.Warn("the store of an older build was imported; its folder can be removed", "documents", len(docs), "folder", filepath.Join(dir, importedFiles))
	return os.Rename(from, filepath.Join(dir, importedFiles))
}

// readOlder returns the documents of an older build, with their revisions.
func readOlder(ctx context.Context, dir string, log *slog.Logger) (docs []store.Kept, err error) {
	server, err := natsserver.Open(natsserver.Options{Dir: dir, MaxBytes: 1 << 40, Late: true, Logger: log})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	js, err := jetstream.New(server.Conn())
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, "KV_"+storeBucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	left := stream.CachedInfo().State.Msgs
	if left == 0 {
		return nil, nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	for {
		m, err := consumer.Next(jetstream.FetchMaxWait(restoreTimeout))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		k := store.Kept{Doc: store.Doc{Key: strings.TrimPrefix(m.Subject(), "$KV."+storeBucket+"."), Rev: meta.Sequence.Stream, Value: m.Data()}}
		if text := m.Headers().Get("Nats-TTL"); text != "" {
			ttl, err := time.ParseDuration(text)
			if err != nil {
				return nil, fmt.Errorf("the end of %s: %w", k.Key, err)
			}
			k.Ends = meta.Timestamp.Add(ttl)
		}
		deleted := m.Headers().Get("KV-Operation") != "" || m.Headers().Get("Nats-Marker-Reason") != ""
		if !deleted && !k.Ended() {
			docs = append(docs, k)
		}
		if meta.NumPending == 0 {
			return docs, nil
		}
	}
}
