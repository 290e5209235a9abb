package doctor

import (
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"
)

// Environment is the machine that is looked at. All functions may be called at the same time.
type Environment struct {
	// OS is the system, as runtime.GOOS has it.
	OS string
	// Getenv reads a variable; os.Getenv has the shape.
	Getenv func(name string) string
	// Stat looks at a file without opening it.
	Stat func(path string) (fs.FileInfo, error)
	// ReadFile reads a file of a bounded size.
	ReadFile func(path string) ([]byte, error)
	// Dial connects to an address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Run runs a program to its end and returns its output, stderr included.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Free returns the free bytes of the disk that a folder is on.
	Free func(folder string) (uint64, error)
	// Chmod and Remove change files, for repairs.
	Chmod  func(path string, mode fs.FileMode) error
	Remove func(path string) error
	Now    func() time.Time
}

// maxRead bounds a file and the output of a program, in bytes.
const maxRead = 16 << 20

// System returns the Environment of this process.
func System(system string, lookupEnv func(string) (string, bool)) Environment {
	return Environment{
		OS:       system,
		Getenv:   func(name string) string { value, _ := lookupEnv(name); return value },
		Stat:     os.Stat,
		ReadFile: readFile,
		Dial:     (&net.Dialer{}).DialContext,
		Run:      runProgram,
		Free:     freeBytes,
		Chmod:    os.Chmod,
		Remove:   os.Remove,
		Now:      time.Now,
	}
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid} // a pipe would block
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRead))
}

func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 100 * time.Millisecond // a grandchild may hold the pipe
	return cmd.CombinedOutput()
}

// windows reports whether the machine runs Windows.
func (e Environment) windows() bool { return e.OS == "windows" }

// find returns the full path of a program in a PATH, "" if it is not there. A name with a separator
// is looked up as it is.
func (e Environment) find(name, searched string) string {
	names := []string{name}
	separator, list := "/", ":"
	if e.windows() {
		separator, list = `\`, ";"
		if path.Ext(name) == "" {
			names = nil
			for ext := range strings.SplitSeq(e.extensions(), ";") {
				names = append(names, name+strings.ToLower(ext))
			}
		}
	}
	if strings.ContainsAny(name, `/`+separator) {
		for _, n := range names {
			if e.runnable(n) {
				return n
			}
		}
		return ""
	}
	for dir := range strings.SplitSeq(searched, list) {
		for _, n := range names {
			if full := strings.TrimRight(dir, `/`+separator) + separator + n; dir != "" && e.runnable(full) {
				return full
			}
		}
	}
	return ""
}

// extensions are the endings of programs on Windows.
func (e Environment) extensions() string {
	if list := e.Getenv("PATHEXT"); list != "" {
		return list
	}
	return ".com;.exe;.bat;.cmd"
}

// runnable reports whether a file is a program.
func (e Environment) runnable(file string) bool {
	info, err := e.Stat(file)
	return err == nil && !info.IsDir() && (e.windows() || info.Mode().Perm()&0o111 != 0)
}
