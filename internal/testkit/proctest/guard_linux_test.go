package proctest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// abandon starts two programs in sessions of their own, one of which ignores a request to end, prints
// their process ids, and waits for a kill.
func abandon() {
	for _, script := range []string{"echo ready; exec sleep 600", "trap '' TERM; echo ready; while :; do sleep 600; done"} {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = bufio.NewReader(out).ReadString('\n')
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(cmd.Process.Pid)
	}
	select {}
}

// TestGuard: what a killed test binary has left behind ends.
func TestGuard(t *testing.T) {
	binary := exec.Command(os.Args[0])
	binary.Env = append(os.Environ(), "PROCTEST_ABANDON=1")
	out, err := binary.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := binary.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var left []int
	for len(left) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			t.Fatal(lines.Text())
		}
		t.Cleanup(func() { _ = Kill(pid) })
		if !Alive(pid) || Guarded(pid) {
			t.Errorf("process %d: alive %t, of this binary %t", pid, Alive(pid), Guarded(pid))
		}
		left = append(left, pid)
	}
	if !Guarded(binary.Process.Pid) {
		t.Error("the binary does not have the mark of the one that started it")
	}
	if err := Kill(binary.Process.Pid); err != nil {
		t.Fatal(err)
	}
	_ = binary.Wait()
	for _, pid := range left {
		for deadline := time.Now().Add(4 * patience); Alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d goes on", pid)
			}
		}
	}
}
