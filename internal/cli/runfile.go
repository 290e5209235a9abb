package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/app/web"
)

// A running gateway announces its address, whatever its port, to shell commands of the same user in
// a file named after its configuration:
//
//	weir serve ─▶ $XDG_RUNTIME_DIR/weir/<hash of the configuration's path>.json
//	                            │
//	weir ls, search, … ◀────────┴──▶ URL/healthz: the same instance? ─▶ use it, else stale
//
// The folder is $XDG_STATE_HOME/weir, or ~/.local/state/weir. weir serve removes its file when it
// ends. A file left by a killed gateway has an instance that no longer answers; the command that
// finds it removes it.

// runFile is the content of such a file.
type runFile struct {
	Instance string    `json:"instance"` // also in the header of /healthz
	PID      int       `json:"pid"`
	URL      string    `json:"url"` // URL of /mcp
	Started  time.Time `json:"started"`
	Config   string    `json:"config"` // absolute path

	path string
}

// maxRunFile bounds the size of a run file.
const maxRunFile = 64 << 10

// runFolder returns the folder of run files, which may not exist yet.
func runFolder(lookupEnv func(string) (string, bool)) (string, error) {
	for _, v := range []struct{ name, below string }{{"XDG_RUNTIME_DIR", ""}, {"XDG_STATE_HOME", ""}, {"HOME", ".local/state"}, {"LOCALAPPDATA", ""}} {
		if dir, ok := lookupEnv(v.name); ok && filepath.IsAbs(dir) {
			return filepath.Join(dir, filepath.FromSlash(v.below), app.ServerName), nil
		}
	}
	return "", errors.New("none of XDG_RUNTIME_DIR, XDG_STATE_HOME and HOME is set")
}

// runPath returns the run file of a configuration and the configuration's absolute path, with
// symbolic links resolved.
func runPath(lookupEnv func(string) (string, bool), config string) (path, absolute string, err error) {
	if absolute, err = filepath.Abs(config); err != nil {
		return "", "", err
	}
	name := absolute
	if real, err := filepath.EvalSymlinks(absolute); err == nil {
		name = real
	}
	dir, err := runFolder(lookupEnv)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(dir, hex.EncodeToString(sum[:16])+".json"), absolute, nil
}

// writeRunFile announces the gateway of a configuration. remove deletes the file, unless another
// gateway has replaced it.
func writeRunFile(lookupEnv func(string) (string, bool), config, url, instance string) (remove func() error, err error) {
	path, absolute, err := runPath(lookupEnv, config)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(runFile{Instance: instance, PID: os.Getpid(), URL: url, Started: time.Now().UTC(), Config: absolute})
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := ownFolder(dir); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(dir, "new-*") // 0600
	if err != nil {
		return nil, err
	}
	_, err = temp.Write(append(data, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(temp.Name()))
	}
	return func() error { return (&runFile{Instance: instance, path: path}).remove() }, nil
}

// announceGateway announces the gateway of a configuration to shell commands until the returned
// function is called. If that fails, commands use the configured address.
func announceGateway(a *process, config string, addr net.Addr, instance string, log *slog.Logger) (end func()) {
	if config == "" {
		return func() {}
	}
	remove, err := writeRunFile(a.lookupEnv, config, "http://"+app.Dialable(addr.String())+"/mcp", instance)
	if err != nil {
		log.Info("shell commands look for this gateway at the configuration's address only", "err", err)
		return func() {}
	}
	return func() {
		if err := remove(); err != nil {
			log.Warn("the file with this gateway's address cannot be removed", "err", err)
		}
	}
}

// ownFolder refuses a folder in which other users may write. They could redirect this user's
// commands, and tokens, to their own gateway.
func ownFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users may write in %s; take that right away with: chmod 700 %s", dir, dir)
	}
	return nil
}

// readRunFile reads the run file of a configuration. It returns nil if there is no usable one.
func readRunFile(lookupEnv func(string) (string, bool), config string) *runFile {
	path, _, err := runPath(lookupEnv, config)
	if err != nil || ownFolder(filepath.Dir(path)) != nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRunFile {
		return nil
	}
	data, err := os.ReadFile(path)
	f := &runFile{path: path}
	if err != nil || json.Unmarshal(data, f) != nil || f.URL == "" || f.Instance == "" {
		return nil
	}
	return f
}

// remove removes the file if it still belongs to this instance.
func (f *runFile) remove() error {
	data, err := os.ReadFile(f.path)
	var now runFile
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case json.Unmarshal(data, &now) == nil && now.Instance != f.Instance:
		return nil
	}
	return os.Remove(f.path)
}

// instanceTimeout bounds the check whether a gateway still runs. A busy gateway that does not
// answer in time counts as running.
const instanceTimeout = 2 * time.Second

// runs reports whether the gateway that wrote the file still runs.
func (f *runFile) runs(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	at, err := siblingURL(f.URL, "healthz")
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(asking, http.MethodHead, at, nil)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return asking.Err() != nil && ctx.Err() == nil
	}
	_ = resp.Body.Close() // a HEAD response has no body
	return resp.Header.Get(web.InstanceHeader) == f.Instance
}
