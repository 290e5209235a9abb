package computer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
)

// Bounds of blobs.
const (
	blobChunk     = 256 << 10
	maxBlob       = 100 << 20
	maxBlobs      = 256 << 20 // total bytes
	inlineBlob    = 256 << 10 // largest content in base64 characters that stays in the result
	blobKeep      = 10 * time.Minute
	uploadIdle    = 120 * time.Second
	maxUploads    = 8
	maxLandedName = 80
)

// blobs keeps large contents by their hash for a limited time.
type blobs struct {
	mu    sync.Mutex // guards below
	byID  map[string]*blob
	order []string // the oldest first
	size  int
}

type blob struct {
	data []byte
	mime string
	sum  string
	used time.Time
}

func newBlobs() *blobs { return &blobs{byID: map[string]*blob{}} }

// put stores data and returns its handle. The caller must not change data afterwards. put drops the
// oldest blobs to make room.
func (b *blobs) put(data []byte, mimeType string) (string, error) {
	if len(data) > maxBlob {
		return "", fmt.Errorf("%d bytes are more than a blob may have, which is %d", len(data), maxBlob)
	}
	sum := sha256.Sum256(data)
	id := base64.RawURLEncoding.EncodeToString(sum[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if old := b.byID[id]; old != nil {
		old.used, old.mime = now, mimeType
		return id, nil
	}
	for len(b.order) > 0 && (b.size+len(data) > maxBlobs || now.Sub(b.byID[b.order[0]].used) > blobKeep) {
		b.size -= len(b.byID[b.order[0]].data)
		delete(b.byID, b.order[0])
		b.order = append(b.order[:0], b.order[1:]...)
	}
	b.byID[id] = &blob{data, mimeType, hex.EncodeToString(sum[:]), now}
	b.order = append(b.order, id)
	b.size += len(data)
	return id, nil
}

// get handles client:get_blob.
func (b *blobs) get(req smcp.GetBlob) (smcp.Blob, error) {
	refuse := func(reason, text string) error {
		return smcp.Errorf(smcp.CodeBlob, "%s", text).With("reason", reason)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(req.Handle); err != nil || len(raw) != sha256.Size {
		return smcp.Blob{}, refuse("invalid_handle", "this is no handle of a blob")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	bl := b.byID[req.Handle]
	switch {
	case bl == nil:
		return smcp.Blob{}, refuse("gone", "the blob is not kept any more; make the call again")
	case req.Offset < 0 || req.Offset > int64(len(bl.data)):
		return smcp.Blob{}, refuse("range", fmt.Sprintf("the blob has %d bytes", len(bl.data)))
	}
	bl.used = time.Now()
	n := blobChunk
	if req.MaxChunk > 0 {
		n = min(n, req.MaxChunk)
	}
	end := min(int(req.Offset)+n, len(bl.data))
	return smcp.Blob{
		Handle: req.Handle, MIMEType: bl.mime, TotalSize: int64(len(bl.data)), SHA256: bl.sum, Offset: req.Offset,
		EOF: end == len(bl.data), Data: bl.data[req.Offset:end:end], ReqID: req.ReqID,
	}, nil
}

// detach replaces large binary contents of a result by handles.
func (b *blobs) detach(result json.RawMessage) (json.RawMessage, error) {
	if len(result) < inlineBlob {
		return result, nil
	}
	content := rawjson.Get(result, "content")
	if !rawjson.IsArray(content) {
		return result, nil
	}
	var items []json.RawMessage
	changed := false
	err := rawjson.EachElement(content, func(v []byte) bool {
		item, did := b.detachItem(v)
		changed = changed || did
		items = append(items, item)
		return true
	})
	if err != nil || !changed {
		return result, nil // a result that cannot be read is passed on unchanged
	}
	list, err := smcp.Encode(items)
	if err != nil {
		return nil, err
	}
	return rawjson.Set(result, "content", list)
}

func (b *blobs) detachItem(item json.RawMessage) (json.RawMessage, bool) {
	where := []string{"data"}
	mimeType := rawjson.Text(rawjson.Get(item, "mimeType"))
	if rawjson.Text(rawjson.Get(item, "type")) == "resource" {
		where = []string{"resource", "blob"}
		mimeType = rawjson.Text(rawjson.GetPath(item, "resource", "mimeType"))
	}
	value := rawjson.GetPath(item, where...)
	if len(value) < inlineBlob {
		return item, false
	}
	data, err := base64.StdEncoding.DecodeString(rawjson.Text(value))
	if err != nil {
		return item, false
	}
	if mimeType == "" {
		mimeType = "application/octet-stream"
	}
	handle, err := b.put(data, mimeType)
	if err != nil {
		return item, false
	}
	sum := sha256.Sum256(data)
	out, err := rawjson.SetPath(item, []byte(`""`), where...)
	for _, m := range []struct {
		key   string
		value []byte
	}{
		{smcp.MetaBlob, rawjson.Quote(handle)},
		{"a2c_total_size", fmt.Appendf(nil, "%d", len(data))},
		{"a2c_sha256", rawjson.Quote(hex.EncodeToString(sum[:]))},
	} {
		if err == nil {
			out, err = rawjson.SetPath(out, m.value, "_meta", m.key)
		}
	}
	if err != nil {
		return item, false
	}
	return out, true
}

// uploads tracks the files that Agents are uploading.
type uploads struct {
	dir string

	mu     sync.Mutex // guards below
	active map[string]*upload
}

type upload struct {
	file  *os.File
	name  string
	size  int64
	sum   string
	at    int64
	timer *time.Timer
}

func newUploads(dir string) *uploads { return &uploads{dir: dir, active: map[string]*upload{}} }

// put handles client:put_blob.
func (u *uploads) put(req smcp.PutBlob) (smcp.PutBlobDone, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	id := req.UploadID
	if id == "" {
		var err error
		if id, err = u.begin(req); err != nil {
			return smcp.PutBlobDone{}, err
		}
	} else if req.TotalSize != 0 || req.SHA256 != "" || req.NameHint != "" {
		return smcp.PutBlobDone{}, uploadError("invalid_declaration", "only the first chunk declares")
	}
	up := u.active[id]
	if up == nil {
		return smcp.PutBlobDone{}, uploadError("invalid_upload", "there is no such upload; begin a new one")
	}
	done, err := u.write(id, up, req)
	if err != nil {
		u.drop(id)
		return smcp.PutBlobDone{}, err
	}
	done.ReqID = req.ReqID
	return done, nil
}

func uploadError(reason, format string, args ...any) error {
	return smcp.Errorf(smcp.CodeUpload, format, args...).With("reason", reason)
}

// begin opens a file for the first chunk. The caller holds mu.
func (u *uploads) begin(req smcp.PutBlob) (string, error) {
	sum, err := hex.DecodeString(req.SHA256)
	switch {
	case u.dir == "":
		return "", uploadError("forbidden", "this Computer takes no uploads: its owner can set a folder for them")
	case req.TotalSize < 1 || err != nil || len(sum) != sha256.Size || req.Offset != 0:
		return "", uploadError("invalid_declaration", "the first chunk is at 0 and declares total_size and sha256")
	case req.TotalSize > maxBlob:
		return "", uploadError("too_large", "%d bytes are more than the bound of %d", req.TotalSize, maxBlob)
	case len(u.active) >= maxUploads:
		return "", uploadError("busy", "%d uploads are on their way; try again later", len(u.active))
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	f, err := os.OpenFile(filepath.Join(u.dir, id+".part"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", uploadError("io_error", "the upload cannot be written")
	}
	u.active[id] = &upload{file: f, name: landedName(id, req.NameHint), size: req.TotalSize, sum: strings.ToLower(req.SHA256),
		timer: time.AfterFunc(uploadIdle, func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.drop(id)
		})}
	return id, nil
}

// landedName returns a file name made of an id and the harmless part of a hint.
func landedName(id, hint string) string {
	hint = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, hint)
	hint = strings.Trim(hint[max(0, len(hint)-maxLandedName):], "._-")
	if hint == "" {
		return id
	}
	return id + "-" + hint
}

// write appends one chunk. The caller holds mu.
func (u *uploads) write(id string, up *upload, req smcp.PutBlob) (smcp.PutBlobDone, error) {
	up.timer.Reset(uploadIdle)
	end := up.at + int64(len(req.Data))
	switch {
	case req.Offset != up.at:
		return smcp.PutBlobDone{}, uploadError("range", "the next chunk is at %d", up.at)
	case end > up.size:
		return smcp.PutBlobDone{}, uploadError("too_large", "more bytes than the %d that were declared", up.size)
	}
	if _, err := up.file.Write(req.Data); err != nil {
		return smcp.PutBlobDone{}, uploadError("io_error", "the upload cannot be written")
	}
	out := smcp.PutBlobDone{UploadID: id, Offset: req.Offset}
	up.at = end
	if !req.EOF {
		return out, nil
	}
	part := up.file.Name()
	data, err := os.ReadFile(part)
	sum := sha256.Sum256(data)
	if err != nil || end != up.size || hex.EncodeToString(sum[:]) != up.sum {
		return smcp.PutBlobDone{}, uploadError("integrity", "size or hash are not those that were declared")
	}
	landing, err := filepath.Abs(filepath.Join(u.dir, up.name))
	if err == nil {
		err = errors.Join(up.file.Close(), os.Rename(part, landing))
	}
	if err != nil {
		return smcp.PutBlobDone{}, uploadError("io_error", "the upload cannot be kept")
	}
	up.timer.Stop()
	delete(u.active, id)
	out.LandingPath, out.TotalSize, out.SHA256 = landing, up.size, up.sum
	return out, nil
}

// drop forgets an upload and removes its partial file. The caller holds mu.
func (u *uploads) drop(id string) {
	up := u.active[id]
	if up == nil {
		return
	}
	delete(u.active, id)
	up.timer.Stop()
	_ = up.file.Close()           // the file is removed next
	_ = os.Remove(up.file.Name()) // a leftover file is harmless
}

func (u *uploads) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.active {
		u.drop(id)
	}
}
