package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/web"
)

// A running gateway announces its address, whatever its port, to other processes of the same user in
// a file of the state folder. The file is named after the gateway's configuration:
//
//	weir serve ─▶ state/gateways/<hash of the configuration's path>.json
//	                            │
//	weir ls, attach, … ◀────────┴──▶ URL/healthz: the same instance? ─▶ use it, else stale
//
// weir serve removes its file when it ends. A file left by a killed gateway has an instance that no
// longer answers; the command that finds it removes it.

// runFile is the content of such a file.
type runFile struct {
	Instance string    `json:"instance"` // also in the header of /healthz
	PID      int       `json:"pid"`
	Port     int       `json:"port"`
	URL      string    `json:"url"`   // URL of /mcp
	Token    string    `json:"token"` // opens /mcp to weir attach
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Config   string    `json:"config"` // absolute path

	path string
}

// maxRunFile bounds the size of a run file.
const maxRunFile = 64 << 10

// places returns where this process looks for weir's files.
func places(lookupEnv func(string) (string, bool)) place.Env {
	return place.Env{OS: runtime.GOOS, Lookup: lookupEnv}
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
	state, err := places(lookupEnv).State()
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(state, "gateways", hex.EncodeToString(sum[:16])+".json"), absolute, nil
}

// writeRunFile announces the gateway of a configuration. remove deletes the file, unless another
// gateway has replaced it.
func writeRunFile(lookupEnv func(string) (string, bool), config string, f runFile) (remove func() error, err error) {
	if f.path, f.Config, err = runPath(lookupEnv, config); err != nil {
		return nil, err
	}
	f.PID, f.Started = os.Getpid(), time.Now().UTC()
	data, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	if err := place.Write(f.path, append(data, '\n')); err != nil {
		return nil, err
	}
	return f.remove, nil
}

// announceGateway announces the gateway of a configuration to shell commands until the returned
// function is called. If that fails, commands use the configured address.
func announceGateway(a *process, config string, listener *web.Listener, instance, token string, log *slog.Logger) (end func()) {
	if config == "" {
		return func() {}
	}
	f := runFile{Instance: instance, URL: listener.Local() + "/mcp", Token: token, Version: a.version}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
		f.Port = tcp.Port
	}
	remove, err := writeRunFile(a.lookupEnv, config, f)
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

// readRunFile reads the run file of a configuration. It returns nil if there is no usable one.
func readRunFile(lookupEnv func(string) (string, bool), config string) *runFile {
	path, _, err := runPath(lookupEnv, config)
	if err != nil {
		return nil
	}
	return parseRunFile(path)
}

// parseRunFile reads a run file. It returns nil if the file is not a usable one.
func parseRunFile(path string) *runFile {
	data, err := place.Read(path, maxRunFile)
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
