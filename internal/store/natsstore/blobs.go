package natsstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-mcp/weir/internal/store"
)

const (
	// chunkBytes is the size of a blob's parts.
	chunkBytes = 128 << 10
	// chunksAhead is how many parts are sent before the first one is confirmed.
	chunksAhead = 16
	// chunkTimeout bounds the confirmation of one part.
	chunkTimeout = 10 * time.Second
	// chunkGrace is how much longer than its description a blob's parts last, for readers.
	chunkGrace = time.Minute
)

// Blobs is store.Blobs in a stream of NATS, in the form of its object stores. It is safe for
// concurrent use. No consumers are made, and each blob can have an end of its own.
//
//	$O.BUCKET.M.<name>   the description: number of parts, length, digest
//	$O.BUCKET.C.<nuid>   the parts
type Blobs struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	bucket string
}

var _ store.Blobs = (*Blobs)(nil)

// description is a blob's, as the client's object stores write it.
type description struct {
	Name   string `json:"name"`
	Bucket string `json:"bucket"`
	NUID   string `json:"nuid"`
	Size   int    `json:"size"`
	Chunks int    `json:"chunks"`
	Digest string `json:"digest"`
}

// OpenBlobs returns the blobs of a bucket, which it makes if there is none. Of o, it reads Bucket,
// Replicas and MaxBytes.
func OpenBlobs(ctx context.Context, conn *nats.Conn, o Options) (*Blobs, error) {
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(requestTimeout), jetstream.WithPublishAsyncTimeout(chunkTimeout), jetstream.WithPublishAsyncMaxPending(4*chunksAhead))
	if err != nil {
		return nil, err
	}
	b := &Blobs{js: js, bucket: o.Bucket}
	b.stream, err = createOrUpdate(ctx, js, o.Replicas, jetstream.StreamConfig{
		Name: "OBJ_" + o.Bucket, Subjects: []string{b.subject("C", ">"), b.subject("M", ">")}, MaxBytes: o.MaxBytes,
		Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, AllowRollup: true, AllowMsgTTL: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	b.sweep(ctx, orphanAge)
	return b, nil
}

// orphanAge is how old parts without a description are when they are removed: a Put has ended by then.
const orphanAge = time.Hour

// sweep removes the parts of blobs whose Put has ended without a description, such as with its process. They
// only cost room, so a failure is left to the next start.
func (b *Blobs) sweep(ctx context.Context, age time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	parts, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject("C", ">")))
	if err != nil || len(parts.State.Subjects) == 0 {
		return
	}
	blobs, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject("M", ">")))
	if err != nil {
		return
	}
	used := map[string]bool{}
	for subject := range blobs.State.Subjects {
		var d description
		m, err := b.stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil || json.Unmarshal(m.Data, &d) != nil {
			return // its parts are not known
		}
		used[b.subject("C", d.NUID)] = true
	}
	for subject := range parts.State.Subjects {
		if used[subject] {
			continue
		}
		if m, err := b.stream.GetLastMsgForSubject(ctx, subject); err == nil && time.Since(m.Time) >= age {
			_ = b.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
	}
}

func (b *Blobs) subject(part, name string) string { return "$O." + b.bucket + "." + part + "." + name }

func (b *Blobs) meta(name string) string {
	return b.subject("M", base64.URLEncoding.EncodeToString([]byte(name)))
}

func digest(h hash.Hash) string { return "SHA-256=" + base64.URLEncoding.EncodeToString(h.Sum(nil)) }

// Put implements store.Blobs.
func (b *Blobs) Put(ctx context.Context, name string, r io.Reader, ttl time.Duration) error {
	if err := store.CheckKey(name, false); err != nil {
		return err
	}
	old, there, err := b.describe(ctx, name)
	if err != nil {
		return err
	}
	d := description{Name: name, Bucket: b.bucket, NUID: nats.NewInbox()[len(nats.InboxPrefix):]}
	if ttl > 0 {
		ttl = (max(ttl, store.MinTTL) + time.Second - 1).Truncate(time.Second)
	}
	if err = b.send(ctx, &d, r, ttl); err == nil {
		err = b.settle(ctx, d, ttl)
	}
	if err != nil {
		b.drop(ctx, d)
		return err
	}
	if there {
		b.drop(ctx, old)
	}
	return nil
}

// send publishes the parts of a blob and completes its description.
func (b *Blobs) send(ctx context.Context, d *description, r io.Reader, ttl time.Duration) error {
	sum := sha256.New()
	var ahead []jetstream.PubAckFuture
	confirmed := func() error {
		next := ahead[0]
		ahead = ahead[1:]
		select {
		case <-next.Ok():
			return nil
		case err := <-next.Err():
			return failure(err)
		case <-ctx.Done():
			return away(ctx.Err())
		}
	}
	// Parts on their way would arrive after their removal, and stay for good.
	defer func() {
		for len(ahead) > 0 {
			select {
			case <-ahead[0].Ok():
			case <-ahead[0].Err():
			}
			ahead = ahead[1:]
		}
	}()
	for {
		chunk := make([]byte, chunkBytes)
		n, err := io.ReadFull(r, chunk)
		if n > 0 {
			if d.Size += n; d.Size > store.MaxBlob {
				return store.TooLarge(d.Name)
			}
			d.Chunks++
			sum.Write(chunk[:n])
			var opts []jetstream.PublishOpt
			if ttl > 0 {
				opts = append(opts, jetstream.WithMsgTTL(ttl+chunkGrace))
			}
			future, err := b.js.PublishMsgAsync(&nats.Msg{Subject: b.subject("C", d.NUID), Data: chunk[:n]}, opts...)
			if err != nil {
				return failure(err)
			}
			if ahead = append(ahead, future); len(ahead) == chunksAhead {
				if err := confirmed(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		} else if err != nil {
			return err
		}
	}
	for len(ahead) > 0 {
		if err := confirmed(); err != nil {
			return err
		}
	}
	d.Digest = digest(sum)
	return nil
}

// settle writes the description: with it the blob is there.
func (b *Blobs) settle(ctx context.Context, d description, ttl time.Duration) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var opts []jetstream.PublishOpt
	if ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(ttl))
	}
	m := &nats.Msg{Subject: b.meta(d.Name), Data: text, Header: nats.Header{headerRollup: {rollupSubject}}}
	if _, err := b.js.PublishMsg(ctx, m, opts...); err != nil {
		return failure(err)
	}
	return nil
}

// drop removes the parts of a blob. They only cost room, so a failure is none of the caller.
func (b *Blobs) drop(ctx context.Context, d description) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_ = b.stream.Purge(ctx, jetstream.WithPurgeSubject(b.subject("C", d.NUID)))
}

// describe returns the description of a blob, and whether there is one.
func (b *Blobs) describe(ctx context.Context, name string) (d description, there bool, err error) {
	m, err := b.stream.GetLastMsgForSubject(ctx, b.meta(name))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return d, false, nil
	case err != nil:
		return d, false, failure(err)
	}
	if err := json.Unmarshal(m.Data, &d); err != nil || d.NUID == "" {
		return d, false, fmt.Errorf("store: the description of the blob %.60q cannot be read", name)
	}
	return d, true, nil
}

// Open implements store.Blobs. Reads end with ctx as well.
func (b *Blobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := store.CheckKey(name, false); err != nil {
		return nil, err
	}
	d, there, err := b.describe(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case !there:
		return nil, store.NoBlob(name)
	}
	return &blobReader{ctx: ctx, blobs: b, d: d, sum: sha256.New()}, nil
}

// Delete implements store.Blobs.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	if err := store.CheckKey(name, false); err != nil {
		return err
	}
	d, there, err := b.describe(ctx, name)
	if err != nil || !there {
		return err
	}
	if err := b.stream.Purge(ctx, jetstream.WithPurgeSubject(b.meta(name))); err != nil {
		return failure(err)
	}
	b.drop(ctx, d)
	return nil
}

// blobReader reads a blob part by part.
type blobReader struct {
	ctx   context.Context
	blobs *Blobs
	d     description
	sum   hash.Hash
	seq   uint64 // of the last part
	parts int    // that were read
	size  int
	rest  bytes.Reader // of the last part
	err   error
}

// errChanged ends the read of a blob that is not whole any more.
var errChanged = errors.New("store: the blob was replaced or removed while it was read")

// Read implements io.Reader.
func (r *blobReader) Read(p []byte) (int, error) {
	for r.rest.Len() == 0 {
		if r.err == nil {
			r.err = r.next()
		}
		if r.err != nil {
			return 0, r.err
		}
	}
	return r.rest.Read(p)
}

// next fetches a part, or returns io.EOF behind the last one of a blob that is whole.
func (r *blobReader) next() error {
	if r.parts == r.d.Chunks {
		if r.size != r.d.Size || digest(r.sum) != r.d.Digest {
			return errChanged
		}
		return io.EOF
	}
	m, err := r.blobs.stream.GetMsg(r.ctx, r.seq+1, jetstream.WithGetMsgSubject(r.blobs.subject("C", r.d.NUID)))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return errChanged
	case err != nil:
		return failure(err)
	}
	r.parts, r.size, r.seq = r.parts+1, r.size+len(m.Data), m.Sequence
	r.sum.Write(m.Data)
	r.rest.Reset(m.Data)
	return nil
}

// Close implements io.Closer.
func (r *blobReader) Close() error {
	r.err = errors.New("store: the blob's reader is closed")
	r.rest.Reset(nil)
	return nil
}
