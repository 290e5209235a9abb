package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/weir-mcp/weir/internal/host/place"
)

// Bounds of a bundle.
const (
	maxFiles     = 20_000
	maxUnpacked  = 1 << 30 // bytes, of all files together
	maxRatio     = 200     // of a file's size to its compressed size
	ratioFrom    = 1 << 20 // files below it may be of any ratio
	maxManifest  = 1 << 20
	maxSignature = 1 << 20
)

// Bundle is an open .mcpb file.
type Bundle struct {
	Manifest *Manifest
	SHA256   string // of the file, in hexadecimal
	Signed   bool   // a signature follows the zip; it is not checked

	file *os.File
	zip  *zip.Reader
}

// Open reads the manifest of a bundle and checks the names and sizes of its files. The caller closes
// the Bundle.
func Open(name string) (*Bundle, error) {
	f, err := place.Open(name)
	if err != nil {
		return nil, err
	}
	b := &Bundle{file: f}
	if err := b.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Base(name), err), f.Close())
	}
	return b, nil
}

// Close closes the file.
func (b *Bundle) Close() error { return b.file.Close() }

func (b *Bundle) read() error {
	sum := sha256.New()
	size, err := io.Copy(sum, b.file)
	if err != nil {
		return err
	}
	b.SHA256 = hex.EncodeToString(sum.Sum(nil))
	end, err := unsigned(b.file, size)
	if err != nil {
		return err
	}
	b.Signed = end < size
	if b.zip, err = zip.NewReader(io.NewSectionReader(b.file, 0, end), end); err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return errors.New("it is no bundle: it is not a zip file")
	}
	if err := b.check(); err != nil {
		return err
	}
	f, err := b.zip.Open("manifest.json")
	if err != nil {
		return errors.New("it is no bundle: it has no manifest.json")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return err
	}
	b.Manifest, err = parseManifest(data)
	return err
}

// unsigned returns the length of the zip in a file that a signature may follow: MCPB_SIG_V1, the
// length, the signature, MCPB_SIG_END.
func unsigned(r io.ReaderAt, size int64) (int64, error) {
	const begin, end = "MCPB_SIG_V1", "MCPB_SIG_END"
	tail := make([]byte, min(size, maxSignature+int64(len(begin)+4+len(end))))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !bytes.HasSuffix(tail, []byte(end)) {
		return size, nil
	}
	for at := bytes.LastIndex(tail, []byte(begin)); at >= 0; at = bytes.LastIndex(tail[:at], []byte(begin)) {
		body := tail[at+len(begin) : len(tail)-len(end)]
		if len(body) >= 4 && int(binary.LittleEndian.Uint32(body)) == len(body)-4 {
			return size - int64(len(tail)-at), nil
		}
	}
	return 0, errors.New("its signature is damaged")
}

// check refuses files that would leave the folder, links, and bundles that exceed a bound.
func (b *Bundle) check() error {
	if len(b.zip.File) > maxFiles {
		return fmt.Errorf("it has %d files; at most %d are unpacked", len(b.zip.File), maxFiles)
	}
	var total uint64
	seen := make(map[string]bool, len(b.zip.File))
	for _, f := range b.zip.File {
		name := strings.TrimSuffix(f.Name, "/")
		mode := f.Mode()
		folded := strings.ToLower(name)
		switch {
		case name == "" || strings.ContainsAny(name, "\\:\x00") || !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != name:
			return fmt.Errorf("the file %.80q would leave the bundle's folder", f.Name)
		case !mode.IsDir() && !mode.IsRegular():
			return fmt.Errorf("%.80q is a link or a device", f.Name)
		case seen[folded]:
			return fmt.Errorf("%.80q is in it twice", f.Name)
		case f.UncompressedSize64 > ratioFrom && f.UncompressedSize64/max(f.CompressedSize64, 1) > maxRatio:
			return fmt.Errorf("%.80q is compressed more than %d times, as no program is", f.Name, maxRatio)
		}
		seen[folded] = true
		if total += f.UncompressedSize64; total > maxUnpacked || f.UncompressedSize64 > maxUnpacked {
			return fmt.Errorf("it unpacks to more than %d GB", maxUnpacked>>30)
		}
	}
	return nil
}

// Folder returns the name of the bundle's folder, from the manifest and the file:
// name-version-sha8.
func (b *Bundle) Folder() string { return b.Manifest.folder() + "-" + b.SHA256[:8] }

// Extract unpacks the bundle into its folder below dir. If the folder exists, it returns it
// unchanged.
func (b *Bundle) Extract(dir string) (string, error) {
	final := filepath.Join(dir, b.Folder())
	if info, err := os.Lstat(final); err == nil && info.IsDir() {
		return final, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(dir, ".unpack-*")
	if err != nil {
		return "", err
	}
	if err = b.unpack(temp); err == nil {
		err = os.Rename(temp, final)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(temp))
	}
	return final, nil
}

func (b *Bundle) unpack(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := int64(maxUnpacked)
	for _, f := range b.zip.File {
		name := filepath.FromSlash(strings.TrimSuffix(f.Name, "/"))
		if f.Mode().IsDir() {
			if err := root.MkdirAll(name, 0o700); err != nil {
				return err
			}
			continue
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if f.Mode()&0o111 != 0 || b.Manifest.Server.Type == "binary" && path.Clean(b.Manifest.Server.EntryPoint) == f.Name {
			mode = 0o700
		}
		n, err := unpackFile(root, name, f, mode, left)
		if err != nil {
			return fmt.Errorf("unpacking %.80q: %w", f.Name, err)
		}
		left -= n
	}
	return nil
}

func unpackFile(root *os.Root, name string, f *zip.File, mode fs.FileMode, left int64) (n int64, err error) {
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(out, io.LimitReader(in, left+1))
	if err == nil && n > left {
		err = fmt.Errorf("the bundle unpacks to more than %d GB", maxUnpacked>>30)
	}
	return n, errors.Join(err, out.Close())
}
