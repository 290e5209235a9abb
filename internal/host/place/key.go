package place

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// OperatorKey is the file of the state folder with the operator's key. A caller who shows the key to
// a gateway of the same user, on the same machine, may operate that gateway.
const OperatorKey = "operator.key"

const (
	keyBytes   = 32
	maxKeyFile = 1 << 10
)

// MakeKey returns the random key in a file of the state folder. It makes the file if it is missing.
// Processes that call it at the same time get the same key.
func MakeKey(ctx context.Context, path string) (string, error) {
	key, err := ReadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return "", err
	}
	unlock, err := Lock(ctx, path+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if key, err = ReadKey(path); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	random := make([]byte, keyBytes)
	_, _ = rand.Read(random) // never fails
	key = base64.RawURLEncoding.EncodeToString(random)
	return key, Write(path, []byte(key+"\n"))
}

// ReadKey returns the key in a file of the state folder. It refuses a file that other users may
// read, because its key may no longer be a secret.
func ReadKey(path string) (string, error) {
	data, err := Read(path, maxKeyFile)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("other users may read or write %s: run chmod 600 on it if none of them has read it; otherwise remove it, and start weir serve again for a new key, which does not open what this one has sealed", path)
	}
	key := strings.TrimSpace(string(data))
	if raw, err := base64.RawURLEncoding.DecodeString(key); err != nil || len(raw) != keyBytes {
		return "", fmt.Errorf("%s holds no key: restore it from a backup, or remove it, and start weir serve again for a new one", path)
	}
	return key, nil
}
