package mcpregistry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxBundle bounds an .mcpb file, in bytes.
const maxBundle = 512 << 20

// Download writes a bundle to w. After an error, the caller must not use the bytes in w: the file
// may not be the one that the registry's document names. ctx bounds the time.
func (c *Client) Download(ctx context.Context, b Bundle, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("the bundle cannot be loaded: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the bundle cannot be loaded: %s answers %s", resp.Request.URL.Host, resp.Status)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(resp.Body, maxBundle+1))
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return fmt.Errorf("the bundle cannot be loaded: %w", err)
	case n > maxBundle:
		return fmt.Errorf("the bundle is larger than %d MB", maxBundle>>20)
	case b.SHA256 == "":
		return errors.New("the bundle has no SHA-256 to check it by")
	case !strings.EqualFold(got, b.SHA256):
		return fmt.Errorf("the bundle is not the published one: its SHA-256 is %s and not %s; do not use it, and tell the publisher", got, b.SHA256)
	}
	return nil
}
