package sandbox_test

import (
	"bytes"
	"crypto/tls"
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
	{"read a private key in ~/.ssh", func(f facts) error { return reads(f.home + "/.ssh/id_ed25519") }},
	{"list ~/.ssh", func(f facts) error { _, err := os.ReadDir(f.home + "/.ssh"); return err }},
	{"read ~/.aws/credentials", func(f facts) error { return reads(f.home + "/.aws/credentials") }},
	{"read a browser's cookies", func(f facts) error { return reads(f.home + "/.config/chromium/Default/Cookies") }},
	{"read the state of another server", func(f facts) error { return reads(f.state + "/other/token") }},
	{"read weir's store", func(f facts) error { return reads(f.home + "/.local/state/weir/store.db") }},
	{"read by a symbolic link", func(f facts) error {
		link := filepath.Join(os.Getenv("HOME"), "link")
		_ = os.Remove(link)
		if err := os.Symlink(f.home+"/.ssh/id_ed25519", link); err != nil {
			return err
		}
		return reads(link)
	}},
	{"read by a hard link", func(f facts) error {
		link := filepath.Join(os.Getenv("HOME"), "hard")
		_ = os.Remove(link)
		if err := os.Link(f.home+"/.ssh/id_ed25519", link); err != nil {
			return err
		}
		return reads(link)
	}},
	{"read by ..", func(f facts) error { return reads(f.state + "/other/../../.ssh/id_ed25519") }},
	{"read by /proc/PID/root", func(f facts) error { return reads("/proc/" + f.victim + "/root" + f.home + "/.ssh/id_ed25519") }},
	{"read by /proc/PID/cwd", func(f facts) error { return reads("/proc/" + f.victim + "/cwd/.ssh/id_ed25519") }},
	{"write outside of its folders", func(f facts) error { return os.WriteFile(f.home+"/.bashrc", []byte("evil"), 0o600) }},
	{"rename a file of the user away", func(f facts) error { return os.Rename(f.home+"/notes", os.Getenv("HOME")+"/notes") }},
	{"delete a file of the user", func(f facts) error { return os.Remove(f.home + "/doomed") }},
	{"truncate a file of the user", func(f facts) error { return os.Truncate(f.home+"/.ssh/config", 0) }},
	{"read the environment of another process", func(f facts) error { return reads("/proc/" + f.victim + "/environ") }},
	{"read the command line of another process", func(f facts) error {
		return reads("/proc/" + f.victim + "/cmdline")
	}},
	{"read the memory of another process", func(f facts) error {
		mem, err := os.Open("/proc/" + f.victim + "/mem")
		if err == nil {
			mem.Close()
		}
		return err
	}},
	{"trace another process", func(f facts) error {
		pid, _ := strconv.Atoi(f.victim)
		return unix.PtraceSeize(pid) // it ends with this process
	}},
	{"copy from another process", func(f facts) error {
		pid, _ := strconv.Atoi(f.victim)
		var b [8]byte
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: f.address, Len: 8}}, 0)
		if errors.Is(err, unix.EFAULT) {
			return nil // it may, and knows no address
		}
		return err
	}},
	{"signal another process", func(f facts) error {
		pid, _ := strconv.Atoi(f.victim)
		return syscall.Kill(pid, syscall.SIGCONT)
	}},
	{"connect to a socket such as Docker's", func(f facts) error { return connects("unix", f.socket) }},
	{"connect to an abstract socket", func(f facts) error { return connects("unix", "@"+f.abstract) }},
	{"reach a host by its address, past the proxy", func(f facts) error { return connects("tcp", f.host) }},
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
		c, err := d.Dial("tcp", f.host)
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
	{"send a datagram", func(f facts) error {
		c, err := net.Dial("udp", f.udp)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, err = c.Read(make([]byte, 8))
		return err
	}},
	{"reach a host that is not named, by the proxy", func(f facts) error { return gets("http://" + f.host + "/") }},
	{"use the proxy without its password", func(f facts) error {
		at := os.Getenv("HTTP_PROXY")
		if at == "" {
			return gets("http://" + f.host + "/")
		}
		_, hostport, _ := strings.Cut(at, "@")
		c, err := net.Dial("tcp", hostport)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", f.named, f.named)
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
		c := exec.Command("/bin/sh", "-c", "exec 0<&- 1>&- 2>&-; while kill -0 $PPID; do sleep 0.1; done; sleep 0.5; echo $$ > \"$HOME/survivor\"; exec sleep 600")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return c.Start()
	}},
}

// facts are what a hostile server knows.
type facts struct {
	home, state, victim, socket, abstract, host, udp, named string
	address                                                 uintptr
}

// factsVariable has the facts. They are no arguments: paths in arguments are given to a server.
const factsVariable = "TRY_FACTS"

// try does some of the tries, with ; between their names, and says how each ended.
func try(name string) int {
	known := append(strings.Split(os.Getenv(factsVariable), "|"), make([]string, 9)...)[1:]
	f := facts{home: known[0], state: known[1], victim: known[2], socket: known[3], abstract: known[4], host: known[5], udp: known[6], named: known[7]}
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
