package natsstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-mcp/weir/internal/store"
)

// Options configures Docs.
type Options struct {
	// Bucket is the name of the key-value bucket.
	Bucket string
	// Changes is what starts the subjects, before a dot and the key, on which the server tells of
	// changes. Default: the bucket's name and ".d".
	Changes string
	// Replicas is the number of servers that keep each document: 1, 3 or 5. Zero keeps the number of
	// a bucket that exists; a new one has 3, or 1 at a single server.
	Replicas int
	// MaxBytes bounds the documents. At the bound, changes fail with store.ErrFull.
	MaxBytes int64
	// Patience is how long Open waits for servers that have no leader yet. Zero does not wait.
	Patience time.Duration
}

const (
	// markerTTL is the life of what is left of a deleted or expired document.
	markerTTL = time.Minute
	// requestTimeout bounds one request to the server, if the caller sets no earlier end.
	requestTimeout = 5 * time.Second
	// openTimeout bounds one attempt to open a store. With patience, the first one has openFirst, and
	// each further one half as much again: servers answer no request that came before their election.
	openTimeout = 2 * requestTimeout
	openFirst   = time.Second
	// openPause is the wait between attempts to open a store without a leader.
	openPause = 250 * time.Millisecond
)

// Headers and values of the key-value form, and of markers that the server writes.
const (
	headerOperation = "KV-Operation"
	operationPurge  = "PURGE"
	headerReason    = "Nats-Marker-Reason"
	headerRollup    = "Nats-Rollup"
	rollupSubject   = "sub"
)

// Codes of JetStream's errors.
const (
	codeWrongLast           = 10071
	codeWrongLastReplicated = 10164
	codeAlone               = 10074 // replicas at a single server
	codeNoResources         = 10023
	codeNoStorage           = 10047
	codeStoreFailed         = 10077 // "maximum bytes exceeded", among others
	codeInvalid             = 10052 // of a stream's configuration
	codeSizeMissing         = 10113
	codeSizeLimit           = 10122
)

// ErrSetting is returned by Open and OpenBlobs if NATS has answered that it refuses a setting of the store. Another
// attempt does not help.
var ErrSetting = errors.New("NATS refuses a setting of the store")

// settingError returns err, with ErrSetting and what operators check if NATS has refused a setting.
func settingError(err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case codeAlone:
		return fmt.Errorf("%w (%w): operators lower store.replicas, or make it as many NATS servers", ErrSetting, err)
	case codeNoStorage, codeSizeMissing, codeSizeLimit:
		return fmt.Errorf("%w (%w): operators lower store.max_bytes, or raise the limit of NATS", ErrSetting, err)
	case codeInvalid:
		return fmt.Errorf("%w (%w): operators check replicas and max_bytes of the key store", ErrSetting, err)
	}
	return err
}

// Docs is store.Docs in a stream. It is safe for concurrent use.
type Docs struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string // of subjects

	conn    *nats.Conn
	changes string // the prefix of subjects on which changes are told
	lanes   *lanes

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	reads  sync.WaitGroup // the goroutine that reads again
	slow   chan struct{}  // capacity 1: changes have found no room in their lane

	mu      sync.Mutex // guards below
	follows map[*follow]struct{}
	reading bool // whether that goroutine runs
}

var _ store.Docs = (*Docs)(nil)

// Open returns the documents of a bucket, which it makes if there is none. found tells whether
// the bucket was there.
func Open(ctx context.Context, conn *nats.Conn, o Options) (docs *Docs, found bool, err error) {
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return nil, false, err
	}
	if o.Changes == "" {
		o.Changes = o.Bucket + ".d"
	}
	d := &Docs{js: js, prefix: "$KV." + o.Bucket + ".", conn: conn, changes: o.Changes + ".", lanes: newLanes(conn, 1), follows: map[*follow]struct{}{}, slow: make(chan struct{}, 1)}
	within := openTimeout
	if o.Patience > 0 {
		within = openFirst
	}
	for end := time.Now().Add(o.Patience); ; within = min(3*within/2, openTimeout) {
		found, err = d.open(ctx, o, within)
		if err == nil || errors.Is(err, ErrSetting) || !time.Now().Before(end) || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
		}
	}
	if err != nil {
		return nil, false, err
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.noticeLosses()
	return d, found, nil
}

// open makes sure that there is a bucket as o says, within a time.
func (d *Docs) open(ctx context.Context, o Options, within time.Duration) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	name := "KV_" + o.Bucket
	stream, err := again(ctx, within, func(ctx context.Context) (jetstream.Stream, error) { return d.js.Stream(ctx, name) })
	switch {
	case err == nil:
		if found = true; o.Replicas == 0 {
			o.Replicas = stream.CachedInfo().Config.Replicas
		}
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return false, fmt.Errorf("open the store: %w", err)
	}
	// Without direct reads, Get asks the leader and sees each change that has ended.
	want := jetstream.StreamConfig{
		Name: name, Subjects: []string{d.prefix + ">"}, MaxMsgsPerSubject: 1, MaxBytes: o.MaxBytes, MaxMsgSize: store.MaxValue + 4<<10,
		Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
		RePublish:  &jetstream.RePublish{Source: d.prefix + ">", Destination: d.changes + ">"},
		DenyDelete: true, AllowRollup: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL,
	}
	if found && same(stream.CachedInfo().Config, want, o.Replicas) {
		d.stream = stream
		return true, nil
	}
	d.stream, err = createOrUpdate(ctx, d.js, o.Replicas, want)
	if err != nil {
		return false, fmt.Errorf("open the store: %w", err)
	}
	return found, nil
}

// same reports whether a stream is already what its configuration is to be. An update that changes nothing writes
// nevertheless: it fails on a full disk, where all documents can be read, and takes a round of the servers.
func same(have, want jetstream.StreamConfig, replicas int) bool {
	return slices.Equal(have.Subjects, want.Subjects) && have.Replicas == replicas &&
		have.MaxMsgsPerSubject == want.MaxMsgsPerSubject && have.MaxBytes == want.MaxBytes && have.MaxMsgSize == want.MaxMsgSize &&
		have.Retention == want.Retention && have.Discard == want.Discard && have.Storage == want.Storage && have.MaxAge == want.MaxAge &&
		have.RePublish != nil && *have.RePublish == *want.RePublish &&
		have.DenyDelete == want.DenyDelete && have.AllowRollup == want.AllowRollup && have.AllowDirect == want.AllowDirect &&
		have.AllowMsgTTL == want.AllowMsgTTL && have.SubjectDeleteMarkerTTL == want.SubjectDeleteMarkerTTL
}

// manyReplicas is the number of copies where servers can keep several.
const manyReplicas = 3

// createOrUpdate makes a stream or changes it. With 0 replicas it makes one of manyReplicas, if there
// are several servers.
func createOrUpdate(ctx context.Context, js jetstream.JetStream, replicas int, c jetstream.StreamConfig) (jetstream.Stream, error) {
	c.Replicas = replicas
	if replicas == 0 {
		c.Replicas = manyReplicas
	}
	stream, err := js.CreateOrUpdateStream(ctx, c)
	var api *jetstream.APIError
	if replicas == 0 && errors.As(err, &api) && api.ErrorCode == codeAlone {
		c.Replicas = 1
		stream, err = js.CreateOrUpdateStream(ctx, c)
	}
	return stream, settingError(err)
}

// noticeLosses makes the follows read again soon when messages have found no room.
func (d *Docs) noticeLosses() {
	before := d.conn.ErrorHandler()
	d.conn.SetErrorHandler(func(conn *nats.Conn, sub *nats.Subscription, err error) {
		switch {
		case errors.Is(err, nats.ErrSlowConsumer) && sub != nil && d.lanes.has(sub):
			select {
			case d.slow <- struct{}{}:
			default:
			}
		case before != nil:
			before(conn, sub, err)
		}
	})
}

// Close ends all follows, and waits for that. The connection stays.
func (d *Docs) Close() {
	d.cancel()
	d.lanes.close()
	d.reads.Wait()
}

// last returns the last message of a key, or its marker. there is false for a marker, whose Rev
// stays: a new document follows it.
func (d *Docs) last(ctx context.Context, key string) (doc store.Doc, there bool, err error) {
	m, err := again(ctx, requestTimeout, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return d.stream.GetLastMsgForSubject(ctx, d.prefix+key)
	})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return store.Doc{Key: key}, false, nil
	case err != nil:
		return store.Doc{}, false, failure(err)
	}
	doc = store.Doc{Key: key, Rev: m.Sequence, Value: m.Data}
	return doc, !isMarker(m.Header), nil
}

// isMarker tells whether a message is what is left of a document.
func isMarker(h nats.Header) bool { return h.Get(headerOperation) != "" || h.Get(headerReason) != "" }

// Get implements store.Docs.
func (d *Docs) Get(ctx context.Context, key string) (store.Doc, error) {
	if err := store.CheckKey(key, false); err != nil {
		return store.Doc{}, err
	}
	doc, there, err := d.last(ctx, key)
	if err == nil && !there {
		doc = store.Doc{Key: key}
	}
	return doc, err
}

// Set implements store.Docs.
func (d *Docs) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if err := store.CheckSet(key, value); err != nil {
		return 0, err
	}
	m := &nats.Msg{Subject: d.prefix + key, Data: value, Header: nats.Header{}}
	if ttl > 0 {
		ttl = (max(ttl, store.MinTTL) + time.Second - 1).Truncate(time.Second) // the server counts seconds
	}
	now, err := d.publish(ctx, m, rev, ttl)
	if rev != 0 || !errors.Is(err, store.ErrConflict) {
		return now, err
	}
	// A document that was there before left a marker, whose sequence the new one must name.
	marker, there, err := d.last(ctx, key)
	switch {
	case err != nil:
		return 0, err
	case there:
		return 0, store.ErrConflict
	}
	return d.publish(ctx, m, marker.Rev, ttl)
}

// Delete implements store.Docs.
func (d *Docs) Delete(ctx context.Context, key string, rev uint64) error {
	if err := store.CheckKey(key, false); err != nil {
		return err
	}
	if rev == 0 {
		return store.ErrConflict
	}
	m := &nats.Msg{Subject: d.prefix + key, Header: nats.Header{headerOperation: {operationPurge}, headerRollup: {rollupSubject}}}
	_, err := d.publish(ctx, m, rev, markerTTL)
	return err
}

// publish changes a subject whose last sequence is rev.
func (d *Docs) publish(ctx context.Context, m *nats.Msg, rev uint64, ttl time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	opts := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(rev)}
	if ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(ttl))
	}
	ack, err := d.js.PublishMsg(ctx, m, opts...)
	if err != nil {
		return 0, failure(err)
	}
	return ack.Sequence, nil
}

// List implements store.Docs.
func (d *Docs) List(ctx context.Context, prefix string) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		if err := store.CheckKey(prefix, true); err != nil {
			yield(store.Doc{}, err)
			return
		}
		info, err := again(ctx, requestTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
			return d.stream.Info(ctx, jetstream.WithSubjectFilter(d.prefix+prefix+">"))
		})
		if err != nil {
			yield(store.Doc{}, failure(err))
			return
		}
		for subject := range info.State.Subjects {
			doc, err := d.Get(ctx, subject[len(d.prefix):])
			switch {
			case err != nil:
				yield(store.Doc{}, err)
				return
			case doc.Rev != 0 && !yield(doc, nil):
				return
			}
		}
	}
}

// failure returns the store's error for one of JetStream.
func failure(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case codeWrongLast, codeWrongLastReplicated:
			return store.ErrConflict
		case codeNoResources, codeNoStorage, codeStoreFailed:
			return fmt.Errorf("%w: %s", store.ErrFull, api.Description)
		}
	}
	return away(err)
}

// diskRoom ends the texts of servers that are there and do not answer. One whose disk is full does not say so: it switches
// its JetStream off, or leaves writes without an answer.
const diskRoom = "that their disks have room: one whose disk was full writes again only after a restart"

// away returns store.ErrUnavailable with the cause in words of operators. The errors of the client library speak of its
// buffers and deadlines. [errors.Is] finds them as before.
func away(err error) error {
	why := ""
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrDisconnected):
		why = "no connection to NATS; operators check the servers of the key store and the network to them"
	case errors.Is(err, nats.ErrConnectionClosed):
		why = "the connection to NATS has ended"
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		why = "NATS has no leader for the documents of weir; operators check that most of its servers run, with JetStream, and " + diskRoom
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		why = "no answer from NATS in time; operators check that most of its servers run and " + diskRoom
	default:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return &awayError{why, err}
}

// awayError is a store that does not answer, and why.
type awayError struct {
	why   string
	cause error
}

// Error implements error. The cause is not in the text.
func (e *awayError) Error() string { return store.ErrUnavailable.Error() + ": " + e.why }

// Unwrap returns what the error is.
func (e *awayError) Unwrap() []error { return []error{store.ErrUnavailable, e.cause} }
