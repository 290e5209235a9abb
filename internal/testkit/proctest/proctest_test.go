package proctest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestMain makes the test binary a process that waits for the end of its input, or one that leaves
// processes behind, for the tests of this package.
func TestMain(m *testing.M) {
	if os.Getenv("PROCTEST_WAIT") != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	if err := Guard(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv("PROCTEST_ABANDON") != "" {
		abandon()
		return
	}
	os.Exit(m.Run())
}

// TestKill: a process is alive until it is killed, alone or with its group.
func TestKill(t *testing.T) {
	for name, kill := range map[string]func(int) error{"process": Kill, "group": KillGroup} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "PROCTEST_WAIT=1")
			cmd.SysProcAttr = Group()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			if !Alive(pid) || !Exists(pid) {
				t.Error("a process that waits is not alive")
			}
			if err := kill(pid); errors.Is(err, errors.ErrUnsupported) {
				t.Log("this system has no process groups")
				_ = Kill(pid)
			} else if err != nil {
				t.Error(err)
			}
			for deadline := time.Now().Add(30 * time.Second); Alive(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it is alive after the kill")
				}
			}
			_ = cmd.Wait()
			if Exists(pid) {
				t.Error("it is there after its parent has waited for it")
			}
		})
	}
}
