package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/weir-mcp/weir/smcp"
)

// Bounds of blobs.
const (
	blobChunk = 256 << 10
	// maxBlob is the size of the largest blob that is read or written: 100 MiB.
	maxBlob = 100 << 20
)

// ReadBlob reads a whole blob and verifies its hash.
func (c *Client) ReadBlob(ctx context.Context, computer, handle string) (data []byte, mimeType string, err error) {
	var first smcp.Blob
	for offset := int64(0); ; {
		var part smcp.Blob
		if err := c.ask(ctx, smcp.EventGetBlob, smcp.GetBlob{Call: c.base(computer), Handle: handle, Offset: offset, MaxChunk: blobChunk}, &part); err != nil {
			return nil, "", err
		}
		if offset == 0 {
			first = part
			if first.TotalSize < 0 || first.TotalSize > maxBlob {
				return nil, "", fmt.Errorf("a blob of %d bytes is over the bound of %d", first.TotalSize, maxBlob)
			}
		}
		if part.SHA256 != first.SHA256 || part.TotalSize != first.TotalSize || part.Offset != offset {
			return nil, "", fmt.Errorf("the blob has changed while it was read; read it again")
		}
		data = append(data, part.Data...)
		offset += int64(len(part.Data))
		if part.EOF || offset >= first.TotalSize {
			break
		}
		if len(part.Data) == 0 {
			return nil, "", fmt.Errorf("the blob ends at %d of %d bytes", offset, first.TotalSize)
		}
	}
	sum := sha256.Sum256(data)
	if int64(len(data)) != first.TotalSize || hex.EncodeToString(sum[:]) != first.SHA256 {
		return nil, "", fmt.Errorf("the blob arrived damaged: its hash does not fit")
	}
	return data, first.MIMEType, nil
}

// WriteBlob uploads data to a Computer and returns its location there. nameHint suggests a file name.
func (c *Client) WriteBlob(ctx context.Context, computer, nameHint string, data []byte) (landingPath string, err error) {
	if len(data) == 0 || len(data) > maxBlob {
		return "", fmt.Errorf("a blob has 1 to %d bytes, not %d", maxBlob, len(data))
	}
	sum := sha256.Sum256(data)
	upload := ""
	for offset := 0; ; {
		end := min(offset+blobChunk, len(data))
		req := smcp.PutBlob{Call: c.base(computer), UploadID: upload, Offset: int64(offset), EOF: end == len(data), Data: data[offset:end]}
		if upload == "" {
			req.TotalSize, req.SHA256, req.NameHint = int64(len(data)), hex.EncodeToString(sum[:]), nameHint
		}
		var done smcp.PutBlobDone
		if err := c.ask(ctx, smcp.EventPutBlob, req, &done); err != nil {
			return "", err
		}
		if req.EOF {
			return done.LandingPath, nil
		}
		upload, offset = done.UploadID, end
	}
}
