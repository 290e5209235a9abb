package mcpregistry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxBundle bounds an .mcpb file, in bytes.
const maxBundle = 512 << 20

// Bounds of the bundles that are kept. A second try, after a question or a failed start, loads none
// again.
const (
	keptBundles = 4
	bundleWait  = 10 * time.Minute // for one download
)

var errNoSum = errors.New("the bundle has no SHA-256 to check it by")

// Bundle returns a file of the cache that holds a bundle, and loads it if necessary. The file has the
// SHA-256 of the registry's document. The client must have a CacheDir.
func (c *Client) Bundle(ctx context.Context, b Bundle) (file string, err error) {
	sum := strings.ToLower(b.SHA256)
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", errNoSum
	}
	dir := filepath.Join(c.cache.dir, "bundles")
	file = filepath.Join(dir, sum+".mcpb")
	if sumOf(file) == sum {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, bundleWait)
	defer cancel()
	err = c.download(ctx, b, temp)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	trim(dir, keptBundles)
	return file, nil
}

// sumOf returns the SHA-256 of a file, "" if it cannot be read.
func sumOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxBundle+1)); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// download writes a bundle to w. After an error, the caller must not use the bytes in w: the file
// may not be the one that the registry's document names. ctx bounds the time.
func (c *Client) download(ctx context.Context, b Bundle, w io.Writer) error {
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
		return errNoSum
	case !strings.EqualFold(got, b.SHA256):
		return fmt.Errorf("the bundle is not the published one: its SHA-256 is %s and not %s; do not use it, and tell the publisher", got, b.SHA256)
	}
	return nil
}
