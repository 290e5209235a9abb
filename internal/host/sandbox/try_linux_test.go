package sandbox_test

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tries are what a hostile server tries. Each gets the facts of the machine that it knows, and returns nil if it has done it.
var tries = []struct {
	name string
	do   func(f facts) error
}{
	{"read a private key in ~/.ssh", func(f facts) error { return reads(f.Home + "/.ssh/id_ed25519") }},
	{"list ~/.ssh", func(f facts) error { _, err := os.ReadDir(f.Home + "/.ssh"); return err }},
	{"read ~/.aws/credentials", func(f facts) error { return reads(f.Home + "/.aws/credentials") }},
	{"read a browser's cookies", func(f facts) error { return reads(f.Home + "/.config/chromium/Default/Cookies") }},
	{"read the state of another server", func(f facts) error { return reads(f.State + "/other/token") }},
	{"read weir's store", func(f facts) error { return reads(f.Home + "/.local/state/weir/store.db") }},
	{"read by a symbolic link", func(f facts) error {
		link := filepath.Join(os.Getenv("HOME"), "link")
		_ = os.Remove(link)
		if err := os.Symlink(f.Home+"/.ssh/id_ed25519", link); err != nil {
			return err
		}
		return reads(link)
	}},
	{"write by a symbolic link", func(f facts) error {
		link := filepath.Join(os.Getenv("HOME"), "out")
		_ = os.Remove(link)
		if err := os.Symlink(f.Home+"/.profile", link); err != nil {
			return err
		}
		return os.WriteFile(link, []byte("evil"), 0o600)
	}},
	{"read by a hard link", func(f facts) error {
		link := filepath.Join(os.Getenv("HOME"), "hard")
		_ = os.Remove(link)
		if err := os.Link(f.Home+"/.ssh/id_ed25519", link); err != nil {
			return err
		}
		return reads(link)
	}},
	{"read by ..", func(f facts) error { return reads(f.State + "/other/../../.ssh/id_ed25519") }},
	{"read by /proc/PID/root", func(f facts) error { return reads("/proc/" + f.Victim + "/root" + f.Home + "/.ssh/id_ed25519") }},
	{"read by /proc/PID/cwd", func(f facts) error { return reads("/proc/" + f.Victim + "/cwd/.ssh/id_ed25519") }},
	{"write outside of its folders", func(f facts) error { return os.WriteFile(f.Home+"/.bashrc", []byte("evil"), 0o600) }},
	{"rename a file of the user away", func(f facts) error { return os.Rename(f.Home+"/notes", os.Getenv("HOME")+"/notes") }},
	{"exchange a file of its own with one of the user", func(f facts) error {
		own := filepath.Join(os.Getenv("HOME"), "own")
		if err := os.WriteFile(own, []byte("evil"), 0o600); err != nil {
			return err
		}
		return unix.Renameat2(unix.AT_FDCWD, own, unix.AT_FDCWD, f.Home+"/swapped", unix.RENAME_EXCHANGE)
	}},
	{"delete a file of the user", func(f facts) error { return os.Remove(f.Home + "/doomed") }},
	{"truncate a file of the user", func(f facts) error { return os.Truncate(f.Home+"/.ssh/config", 0) }},
	{"see the size of a file whose path it knows", func(f facts) error {
		_, err := os.Stat(f.Home + "/.ssh/id_ed25519")
		return err
	}},
	{"change the mode of a file whose path it knows", func(f facts) error { return os.Chmod(f.Home+"/.ssh/config", 0o666) }},
	{"read the environment of weir", func(f facts) error { return reads("/proc/" + f.Weir + "/environ") }},
	{"read the environment of another process", func(f facts) error { return reads("/proc/" + f.Victim + "/environ") }},
	{"read the command line of another process", func(f facts) error {
		return reads("/proc/" + f.Victim + "/cmdline")
	}},
	{"read the memory of another process", func(f facts) error {
		mem, err := os.Open("/proc/" + f.Victim + "/mem")
		if err == nil {
			mem.Close()
		}
		return err
	}},
	{"trace another process", func(f facts) error {
		pid, _ := strconv.Atoi(f.Victim)
		return unix.PtraceSeize(pid) // it ends with this process
	}},
	{"copy from another process", func(f facts) error {
		pid, _ := strconv.Atoi(f.Victim)
		var b [8]byte
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0, Len: 8}}, 0)
		if errors.Is(err, unix.EFAULT) {
			return nil // it may, and knows no address
		}
		return err
	}},
	{"signal another process", func(f facts) error {
		pid, _ := strconv.Atoi(f.Victim)
		return syscall.Kill(pid, syscall.SIGCONT)
	}},
	{"attach memory that another process shares", func(f facts) error {
		at, err := unix.SysvShmAttach(f.Memory, 0, unix.SHM_RDONLY)
		if err == nil {
			err = unix.SysvShmDetach(at)
		}
		return err
	}},
	{"connect to Docker", func(f facts) error { return connects("unix", f.Run+"/docker.sock") }},
	{"connect to the session bus, which leads to the keyring", func(f facts) error { return connects("unix", f.Run+"/bus") }},
	{"connect to the keyring's own socket", func(f facts) error { return connects("unix", f.Run+"/keyring") }},
	{"connect to the agent of SSH", func(f facts) error { return connects("unix", f.Run+"/agent") }},
	{"connect to an abstract socket", func(f facts) error { return connects("unix", "@"+f.Abstract) }},
	{"reach a host by its address, past the proxy", func(f facts) error { return connects("tcp", f.Host) }},
	{"listen on a port for others", func(facts) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	}},
	{"reach a host by MPTCP", func(f facts) error {
		var d net.Dialer
		d.SetMultipathTCP(true)
		c, err := d.Dial("tcp", f.Host)
		if err != nil {
			return err
		}
		return c.Close()
	}},
	{"open a raw socket", func(facts) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"ask a resolver of this machine by UDP", func(f facts) error { return asks("udp", f.DNS) }},
	{"ask a resolver of this machine by TCP", func(f facts) error { return asks("tcp", f.DNS) }},
	{"ask the resolver of /etc/resolv.conf by UDP", func(facts) error { return asksConfigured("udp") }},
	{"ask the resolver of /etc/resolv.conf by TCP", func(facts) error { return asksConfigured("tcp") }},
	{"ask 8.8.8.8 by UDP", func(facts) error { return asks("udp", "8.8.8.8:53") }},
	{"ask 8.8.8.8 by TCP", func(facts) error { return asks("tcp", "8.8.8.8:53") }},
	{"reach the metadata of a cloud", func(facts) error { return connects("tcp", "169.254.169.254:80") }},
	{"reach the metadata of a cloud, by the proxy", func(facts) error { return gets("http://169.254.169.254/") }},
	{"reach a host that is not named, by the proxy", func(f facts) error { return gets("http://" + f.Host + "/") }},
	{"use the proxy without its password", func(f facts) error {
		at := os.Getenv("HTTP_PROXY")
		if at == "" {
			return gets("http://" + f.Host + "/")
		}
		_, hostport, _ := strings.Cut(at, "@")
		c, err := net.Dial("tcp", hostport)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", f.Named, f.Named)
		_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
		answer := make([]byte, 32)
		n, err := c.Read(answer)
		if err == nil && !bytes.Contains(answer[:n], []byte(" 200")) {
			err = fmt.Errorf("it answers %q", answer[:n])
		}
		return err
	}},
	{"get rights by a set-user-id program", func(facts) error {
		none, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err == nil && none == 1 {
			err = errors.New("set-user-id has no effect (no_new_privs)")
		}
		return err
	}},
	{"mount a file system", func(facts) error {
		out, err := exec.Command("/usr/bin/unshare", "-Urm", "/bin/mount", "-t", "tmpfs", "none", "/usr").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}},
	{"read a key of the user's keyring", func(facts) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
		return err
	}},
	{"load a program into the kernel (bpf)", func(facts) error {
		_, _, err := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&[64]byte{})), 64)
		if err == unix.EPERM {
			return err
		}
		return nil
	}},
	{"start 20,000 processes", func(facts) error {
		var started []*os.Process
		defer func() {
			for _, p := range started {
				_ = p.Kill()
				_, _ = p.Wait()
			}
		}()
		for range 1500 {
			p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
			if err != nil {
				return err
			}
			started = append(started, p)
		}
		return nil
	}},
	{"take 10 GB of memory", func(facts) error {
		limit := unix.Rlimit{}
		if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
			return err
		}
		_, err := unix.Mmap(-1, 0, 10<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		return err
	}},
	{"leave its session and live on", func(f facts) error {
		c := exec.Command("/bin/sh", "-c", "exec 0<&- 1>&- 2>&-; while kill -0 $PPID; do sleep 0.05; done; sleep 0.5; echo alive > \"$HOME/survivor\"")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return c.Start()
	}},
}

// facts are what a hostile server knows.
type facts struct {
	Home, State  string // folders of the user, and of weir
	Victim, Weir string // processes
	Run          string // the folder with the sockets of the user's session
	Abstract     string // a socket
	Host, Named  string // addresses of web servers; the second one may be reached
	DNS          string // the address of a resolver
	Memory       int    // shared by another process
}

// factsVariable has the facts. They are no arguments: paths in arguments are given to a server.
const factsVariable = "TRY_FACTS"

// variable returns the variable of the environment with the facts.
func (f facts) variable() string {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // cannot happen: texts and numbers
	}
	return factsVariable + "=" + string(raw)
}

// try does some of the tries, with ; between their names, and says how each ended.
func try(name string) int {
	var f facts
	if err := json.Unmarshal([]byte(cmp.Or(os.Getenv(factsVariable), "{}")), &f); err != nil {
		fmt.Println(err)
		return 1
	}
	if address, ok := strings.CutPrefix(name, "fetch "); ok {
		if err := gets(address); err != nil {
			fmt.Println("refused:", err)
			return 0
		}
		fmt.Println("reached")
		return 0
	}
	for _, one := range tries {
		if slices.Contains(strings.Split(name, ";"), one.name) {
			answer := "open"
			if err := one.do(f); err != nil {
				answer = "held: " + strings.ReplaceAll(err.Error(), "\n", " ")
			}
			fmt.Println(one.name + "\t" + answer)
		}
	}
	return 0
}

// asks sends a query to a resolver and waits for its answer. Its TCP has the length before each message.
func asks(network, resolver string) error {
	query := []byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04weir\x07example\x00\x00\x01\x00\x01")
	if network == "tcp" {
		query = append([]byte{0, byte(len(query))}, query...)
	}
	c, err := net.DialTimeout(network, resolver, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write(query); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 512))
	return err
}

// asksConfigured asks the resolver that programs of this machine ask.
func asksConfigured(network string) error {
	conf, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(conf)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "nameserver" {
			return asks(network, net.JoinHostPort(words[1], "53"))
		}
	}
	return errors.New("/etc/resolv.conf names none")
}

func reads(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = io.EOF
	}
	return err
}

func connects(network, address string) error {
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

// gets fetches a URL over the proxy of the environment, also from this machine.
func gets(address string) error {
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if at := os.Getenv("HTTPS_PROXY"); at != "" {
		proxy, err := url.Parse(at)
		if err != nil {
			return err
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	r, err := (&http.Client{Timeout: 5 * time.Second, Transport: t}).Get(address)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 300))
		return fmt.Errorf("%s: %s", r.Status, body)
	}
	return nil
}
