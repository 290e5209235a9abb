package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/setup/service"
	"github.com/weir-mcp/weir/internal/text"
)

// service returns the service of the user who runs this process.
func (a *process) service() (*service.Service, error) {
	where := places(a.lookupEnv)
	conf, err := where.Config()
	if err != nil {
		return nil, err
	}
	state, err := where.State()
	if err != nil {
		return nil, err
	}
	m := service.Machine{
		OS: runtime.GOOS, Home: a.env("HOME"), UID: os.Getuid(), User: a.env("USER"),
		Config: filepath.Dir(conf), State: state, Run: runForService,
		Units: filepath.Join(filepath.Dir(filepath.Dir(conf)), "systemd", "user"),
	}
	if u, err := user.Current(); err == nil {
		m.User = u.Username
	}
	s, err := service.New(m)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	return s, nil
}

// Bounds of a program that weir asks about the service.
const (
	managerLimit = 30 * time.Second // systemctl restart waits until the gateway is ready
	maxManager   = 1 << 20
)

// runForService implements service.Machine.Run. The program has no terminal: an interactive shell
// would take it from this process.
func runForService(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, managerLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &bounded{&stdout, maxManager}, &bounded{&stderr, maxManager}
	cmd.SysProcAttr = detached()
	cmd.Cancel = func() error { return endFamily(cmd.Process) }
	cmd.WaitDelay = 500 * time.Millisecond
	err := cmd.Run()
	if ctx.Err() != nil {
		return stdout.String(), fmt.Errorf("%s did not end in time: %w", argv[0], ctx.Err())
	}
	if said := strings.TrimSpace(stderr.String()); err != nil && said != "" {
		err = fmt.Errorf("%s (%w)", text.Line(said, 600), err)
	}
	return stdout.String(), err
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	to   *bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.to.Write(p[:n])
	return len(p), nil
}

// gatewayBesideService returns the running gateway of a configuration if the service does not run
// it, nil without one.
func gatewayBesideService(ctx context.Context, lookupEnv func(string) (string, bool), s *service.Service, conf string) *runFile {
	f := readRunFile(lookupEnv, conf)
	if f == nil || !f.runs(ctx) || f.PID == 0 {
		return nil
	}
	if st, err := s.Status(ctx); err == nil && st.Running && (st.PID == 0 || st.PID == f.PID) {
		return nil
	}
	return f
}

// gatewayEndWait bounds the wait for a gateway that was asked to end; it gives running calls 4.5 seconds.
const gatewayEndWait = 8 * time.Second

// stopOther asks a gateway to end and waits until it has. A nil one has ended.
func stopOther(ctx context.Context, f *runFile) error {
	if f == nil {
		return nil
	}
	p, err := os.FindProcess(f.PID)
	if err == nil {
		if err = p.Signal(syscall.SIGTERM); err != nil && runtime.GOOS == "windows" {
			err = p.Kill() // Windows has no SIGTERM
		}
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("the gateway that runs (process %d) cannot be ended: %w", f.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, gatewayEndWait)
	defer cancel()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for f.runs(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway that runs (process %d) does not end", f.PID)
		case <-tick.C:
		}
	}
	return nil
}

// undoableService restores the service for setup.
type undoableService struct{ a *process }

// Restore implements setup.Service.
func (u undoableService) Restore(ctx context.Context, step string) error {
	s, err := u.a.service()
	if err != nil {
		return err
	}
	if step == "" {
		return s.Restore(ctx, nil)
	}
	var settings service.Settings
	if err := json.Unmarshal([]byte(step), &settings); err != nil {
		return fmt.Errorf("the journal's record of the service is damaged: %w", err)
	}
	return s.Restore(ctx, &settings)
}

// serviceForDoctor returns a question for the state of the service, nil where weir runs none.
func serviceForDoctor(a *process) func(context.Context) (doctor.Service, error) {
	s, err := a.service()
	if err != nil {
		return nil
	}
	return func(ctx context.Context) (doctor.Service, error) {
		st, err := s.Status(ctx)
		out := doctor.Service{Installed: st.Installed, Enabled: st.Enabled, Running: st.Running, Lingers: st.Lingers}
		if st.Settings != nil {
			out.Path = st.Settings.Path()
		}
		return out, err
	}
}
