// Package podmantest gives tests an image that has only their own executable, and a podman that starts containers of it.
package podmantest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Libraries are the folders of the shared libraries that the executable may be linked with. A container of the image needs
// them as volumes.
var Libraries = []string{"/lib", "/lib64", "/usr/lib"}

// Server is the path of the executable in the image.
const Server = "/server"

// Image makes the image, and returns its name and the environment for podman, which has PATH and HOME of the given one. trial
// are arguments with which the executable ends with exit code 0. The test is skipped on machines where podman starts no
// containers.
func Image(t *testing.T, of []string, trial ...string) (name string, environ []string) {
	t.Helper()
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Log(err)
		t.Skip("there is no podman that starts containers")
	}
	image, err := archive()
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "containers.conf")
	for _, pair := range of {
		if strings.HasPrefix(pair, "PATH=") || strings.HasPrefix(pair, "HOME=") {
			environ = append(environ, pair)
		}
	}
	environ = append(environ, "CONTAINERS_CONF="+conf)
	run := func(stdin io.Reader, args ...string) error {
		c := exec.CommandContext(t.Context(), podman, args...)
		c.Env, c.Stdin = environ, stdin
		out, err := c.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	// A machine without CAP_SYS_RESOURCE cannot raise limits, as podman does by itself.
	const limits = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1000:1000\"]\n"
	name = fmt.Sprintf("localhost/weir-test:%d", os.Getpid())
	if err := errors.Join(os.WriteFile(conf, []byte(limits), 0o600), run(image, "import", "-", name)); err != nil {
		t.Log("podman import:", err)
		t.Skip("there is no podman that starts containers")
	}
	t.Cleanup(func() { _ = (&exec.Cmd{Path: podman, Args: []string{podman, "rmi", "-f", name}, Env: environ}).Run() })
	start := []string{"run", "--rm", "--init", "--network", "none", "--pids-limit", "64"}
	for _, dir := range Libraries {
		if _, err := os.Stat(dir); err == nil {
			start = append(start, "-v", dir+":"+dir+":ro")
		}
	}
	start = append(append(start, name, Server), trial...)
	for _, runtime := range []string{"", "runc"} {
		text := limits
		if runtime != "" {
			text += fmt.Sprintf("[engine]\nruntime = %q\n", runtime)
		}
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err = run(nil, start...); err == nil {
			return name, environ
		}
		t.Logf("podman run with the runtime %q: %v", runtime, err)
	}
	t.Skip("there is no podman that starts containers")
	return "", nil
}

// archive returns the files of the image.
func archive() (io.Reader, error) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(Server, "/"), Mode: 0o755, Size: int64(len(self))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(self); err != nil {
		return nil, err
	}
	return &image, w.Close()
}
