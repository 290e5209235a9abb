package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

// asParent makes the test binary a program that starts a child and waits.
const asParent = "CHILD_TEST_AS_PARENT"

// started is what that program writes once Start has returned, among the process ids
// of its child. Until then the watchdog may not know of the group.
const started = 0

func TestMain(m *testing.M) {
	if script := os.Getenv(asParent); script != "" {
		k := new(Keeper)
		if _, err := k.Start(shellScript(script, os.Stdout)); err != nil {
			fmt.Println(err)
		}
		fmt.Println(started)
		select {}
	}
	leak.Main(m)
}

// shellScript starts a shell script with a file as its output.
func shellScript(script string, out *os.File) func(*syscall.SysProcAttr) (int, error) {
	return func(attr *syscall.SysProcAttr) (int, error) {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []*os.File{nil, out, out}, Sys: attr})
		if err != nil {
			return 0, err
		}
		return p.Pid, nil
	}
}

func running(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(data), ") Z ") && !strings.Contains(string(data), ") X ")
}

func waitGone(t *testing.T, what string, pid int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); running(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s (%d) is still there", what, pid)
		}
	}
}

// numbers reads process ids, one a line.
func numbers(t *testing.T, r io.Reader, n int) []int {
	t.Helper()
	lines := bufio.NewScanner(r)
	var all []int
	for len(all) < n && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("read %q", lines.Text())
		}
		all = append(all, pid)
	}
	if len(all) < n {
		t.Fatalf("only %v", all)
	}
	return all
}

// A process that is killed takes its children along, and what they have started.
func TestKilledProcess(t *testing.T) {
	for name, script := range map[string]string{
		"a child":             "echo $$; exec sleep 600",
		"a grandchild":        "sleep 600 & echo $!; echo $$; wait",
		"that does not obey":  "trap '' TERM; sleep 600 & echo $!; echo $$; while :; do sleep 1; done",
		"whose child has not": "(trap '' TERM; echo $(sh -c 'echo $PPID'); while :; do sleep 600; done) & echo $$; exec sleep 600",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			parent := exec.CommandContext(ctx, os.Args[0])
			parent.Env = []string{asParent + "=" + script, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			pids := numbers(t, out, strings.Count(script, "echo $")-strings.Count(script, "'echo $")+1)
			pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == started })
			for _, pid := range pids {
				if !running(pid) {
					t.Fatalf("%d of %v does not run", pid, pids)
				}
			}
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed
			for _, pid := range pids {
				waitGone(t, name, pid)
			}
		})
	}
}

// start starts a script whose first line of output are n process ids.
func start(t *testing.T, k *Keeper, script string, n int) (*Group, []int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := k.Start(shellScript(script, w))
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return g, numbers(t, r, n)
}

// reap waits for a child, as its owner does.
func reap(t *testing.T, g *Group) {
	t.Helper()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(g.pid, &status, 0, nil); err != nil {
		t.Error(err)
	}
	g.Reap()
	g.Reap() // does nothing
	g.Signal(false)
}

// What has left the group of the child is ended, too, where it was looked for before
// the child ended.
func TestStrays(t *testing.T) {
	var k Keeper
	defer k.Close()
	g, pids := start(t, &k, "setsid sh -c 'echo $$; exec sleep 600' & sleep 0.1; echo $$; wait", 2)
	g.Look()
	_ = syscall.Kill(g.pid, syscall.SIGKILL)
	reap(t, g)
	for _, pid := range pids {
		waitGone(t, "a stray", pid)
	}
	g, pids = start(t, &k, "trap '' TERM; setsid sh -c 'echo $$; exec sleep 600' & echo $$; while :; do sleep 1; done", 2)
	g.Signal(true)
	g.Signal(false)
	reap(t, g)
	for _, pid := range pids {
		waitGone(t, "a stray", pid)
	}
}

// Kill ends a child and its group at once, and a child that has ended is no other one's.
func TestKill(t *testing.T) {
	var k Keeper
	defer k.Close()
	g, pids := start(t, &k, "trap '' TERM; sleep 600 & echo $!; echo $$; wait", 2)
	g.Kill()
	reap(t, g)
	for _, pid := range pids {
		waitGone(t, "a member of the group", pid)
	}
	g.Kill()
}

// A child lives as long as it wants, whatever becomes of the goroutine and the
// thread that asked for it.
func TestThreadOutlivesItsCaller(t *testing.T) {
	var k Keeper
	defer k.Close()
	var g *Group
	var pids []int
	var all sync.WaitGroup
	all.Go(func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		g, pids = start(t, &k, "echo $$; exec sleep 600", 1)
	})
	all.Wait()
	runtime.GC()
	time.Sleep(50 * time.Millisecond) // for the thread to end
	if !running(pids[0]) {
		t.Error("the child has ended with a thread")
	}
	g.Signal(true)
	reap(t, g)
}

// Many children at once, and none, are told of: the watchdog knows who is left.
func TestManyChildren(t *testing.T) {
	var k Keeper
	for range 2 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				g, _ := start(t, &k, "echo $$", 1)
				reap(t, g)
			})
		}
		all.Wait()
	}
	if k.dog.p == nil || len(k.dog.groups) != 0 {
		t.Errorf("the watchdog knows %v", k.dog.groups)
	}
	pid := k.dog.p.Pid
	k.Close()
	k.Close()
	if running(pid) {
		t.Error("the watchdog is still there")
	}
	if k.thread.children != 0 || k.thread.jobs != nil {
		t.Errorf("%d children are counted", k.thread.children)
	}
	if _, err := k.Start(func(*syscall.SysProcAttr) (int, error) { return 0, os.ErrNotExist }); err == nil || k.thread.children != 0 {
		t.Errorf("a child that does not start: %v", err)
	}
}

// A watchdog that another hand has ended is replaced, and learns of all groups.
func TestWatchdogIsReplaced(t *testing.T) {
	var k Keeper
	defer k.Close()
	first, _ := start(t, &k, "echo $$; exec sleep 600", 1)
	old := k.dog.p.Pid
	_ = syscall.Kill(old, syscall.SIGKILL)
	waitGone(t, "the watchdog", old)
	second, _ := start(t, &k, "echo $$; exec sleep 600", 1) // finds it gone
	third, _ := start(t, &k, "echo $$; exec sleep 600", 1)
	if k.dog.p == nil || k.dog.p.Pid == old || len(k.dog.groups) != 3 {
		t.Errorf("watchdog %v of %v", k.dog.p, k.dog.groups)
	}
	for _, g := range []*Group{first, second, third} {
		g.Signal(false)
		reap(t, g)
	}
}

// The watchdog's pipe does not stay with children: it would never end otherwise.
func TestChildrenDoNotHoldThePipe(t *testing.T) {
	var k Keeper
	g, pids := start(t, &k, "echo $$; exec sleep 600", 1)
	own, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", k.dog.in.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pids[0]))
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == own {
			t.Errorf("a child has the pipe open as %s", link)
		}
	}
	g.Signal(false)
	reap(t, g)
	k.Close()
}
