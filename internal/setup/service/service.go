package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
)

// name is the name of the service at systemd and in the Task Scheduler.
const name = "weir"

// ErrNone is the error of commands for a service that is not installed.
var ErrNone = errors.New("no service is installed: weir service install")

// Settings describe the command of a service.
type Settings struct {
	// Program is the absolute path of weir.
	Program string `json:"program"`
	// Config is the absolute path of the configuration.
	Config string `json:"config"`
	// Port replaces the port of the configuration's address; 0 leaves it.
	Port int `json:"port,omitempty"`
	// Env has variables for service.env, as NAME=VALUE.
	Env []string `json:"env,omitempty"`
}

// Path returns the PATH of the service, "" for the PATH of the system.
func (s Settings) Path() string {
	for _, pair := range s.Env {
		if value, ok := strings.CutPrefix(pair, "PATH="); ok {
			return value
		}
	}
	return ""
}

// arguments returns the command line of the gateway after the program.
func (s Settings) arguments(env, log string) []string {
	args := []string{"serve", "--config", s.Config, "--env-file", env}
	if s.Port != 0 {
		args = append(args, "--listen", "127.0.0.1:"+strconv.Itoa(s.Port))
	}
	if log != "" {
		args = append(args, "--log-file", log)
	}
	return args
}

// Machine is the computer of the user whose service it is.
type Machine struct {
	OS   string // in the form of runtime.GOOS
	Home string
	UID  int    // 0 is refused on Unix
	User string // the account; with its domain on Windows

	Units  string // the folder of systemd's units of the user
	Config string // weir's configuration folder
	State  string // weir's state folder

	// Run runs a program within a time limit and returns its standard output. The error has the
	// program's output on standard error.
	Run func(ctx context.Context, argv ...string) (string, error)
}

// A Service is the service of one user. Its methods must not be called at the same time.
type Service struct {
	m       Machine
	manager manager
}

// A manager is the program of the system that runs services.
type manager interface {
	// title names the manager for people.
	title() string
	// unit returns the file that describes the service.
	unit() string
	// render returns the contents of that file.
	render(Settings) []byte
	// commands returns the commands to run for an action, once the files are written.
	commands(Action) []Command
	// status asks for the state of an installed service.
	status(context.Context) (Status, error)
	// probe returns an error if the manager does not serve this user.
	probe(context.Context) error
	// log returns the command that shows the log.
	log() string
}

// An Action is a change of the service.
type Action string

// The actions.
const (
	Installing Action = "install"
	Removing   Action = "uninstall"
	Starting   Action = "start"
	Stopping   Action = "stop"
)

// A Command is run for an action.
type Command struct {
	Argv []string
	// MayFail is set where a failure has no consequence, as for ending a service that has ended.
	MayFail bool
}

// String returns the command line for people.
func (c Command) String() string { return strings.Join(c.Argv, " ") }

// New returns the service of a machine. Systems without a known manager are refused, and so is the
// user root, whose service of a user would run the servers of every client as root.
func New(m Machine) (*Service, error) {
	s := &Service{m: m}
	switch m.OS {
	case "linux":
		s.manager = systemd{m}
	case "darwin":
		s.manager = launchd{m}
	case "windows":
		s.manager = tasks{m}
	default:
		return nil, fmt.Errorf("weir knows no services of %s: start weir serve by a script of the system", m.OS)
	}
	if m.OS != "windows" && m.UID == 0 {
		return nil, errors.New("weir runs no service of a user as root: its servers would be root, too. Run the command as the user, without sudo; for the whole machine, packages have a unit: systemctl enable --now weir")
	}
	return s, nil
}

// A File is a change of a file.
type File struct {
	Path string
	Data []byte // nil removes it
	New  bool
}

// A Plan is a change that can be shown before it is made.
type Plan struct {
	Action   Action
	Files    []File
	Commands []Command
}

// Env returns the path of service.env.
func (s *Service) Env() string { return filepath.Join(s.m.Config, "service.env") }

// record returns the path of the file that keeps the settings.
func (s *Service) record() string { return filepath.Join(s.m.State, "service.json") }

// LogCommand returns the command that shows the log of the service.
func (s *Service) LogCommand() string { return s.manager.log() }

// Manager names the program that runs the service.
func (s *Service) Manager() string { return s.manager.title() }

// Available returns an error if the manager of this system does not serve the user, as in a
// container without systemd.
func (s *Service) Available(ctx context.Context) error {
	if err := s.manager.probe(ctx); err != nil {
		return fmt.Errorf("%s does not serve this user: %w", s.manager.title(), err)
	}
	return nil
}

// Installed returns the settings of the service, nil if none is installed.
func (s *Service) Installed() (*Settings, error) {
	if _, err := os.Lstat(s.manager.unit()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var settings Settings
	data, err := place.Read(s.record(), 1<<20)
	if err == nil {
		err = json.Unmarshal(data, &settings)
	}
	if err != nil {
		return nil, fmt.Errorf("the settings of the service are not known: %w. Run: weir service install", err)
	}
	return &settings, nil
}

// check refuses settings with which the service could not start.
func (s Settings) check() error {
	for what, path := range map[string]string{"the program": s.Program, "the configuration": s.Config} {
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist) && path == s.Config:
			return fmt.Errorf("there is no configuration at %s: make one with weir init or weir add, or name one with --config", path)
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s %s is no regular file", what, path)
		}
	}
	if s.Port < 0 || s.Port > 65535 {
		return fmt.Errorf("%d is no port", s.Port)
	}
	for _, text := range append([]string{s.Program, s.Config}, s.Env...) {
		if strings.ContainsAny(text, "\x00\n\r") {
			return fmt.Errorf("%q has a character that no description of a service can hold", text)
		}
	}
	return nil
}

// Plan returns the steps of an action. Settings belong to an installation; other actions have none.
func (s *Service) Plan(action Action, settings Settings) (*Plan, error) {
	p := &Plan{Action: action, Commands: s.manager.commands(action)}
	_, err := os.Lstat(s.manager.unit())
	missing := errors.Is(err, fs.ErrNotExist)
	switch action {
	case Installing:
		env, isNew, err := s.planEnv(settings.Env)
		if err != nil {
			return nil, err
		}
		record, err := json.MarshalIndent(settings, "", "  ")
		if err != nil {
			return nil, err
		}
		p.Files = []File{
			{s.Env(), env, isNew}, {s.manager.unit(), s.manager.render(settings), missing},
			{s.record(), append(record, '\n'), missing},
		}
	case Removing:
		if missing {
			return nil, ErrNone
		}
		p.Files = []File{{Path: s.manager.unit()}, {Path: s.record()}}
		env, isNew, err := s.planEnv(nil)
		if err != nil {
			return nil, err
		}
		if !isNew {
			p.Files = append(p.Files, File{Path: s.Env(), Data: env})
		}
	default:
		if missing {
			return nil, ErrNone
		}
	}
	return p, nil
}

// Install writes the files of a service and starts it, also at each login. A service that is there
// gets the new settings. If that fails, the machine is as before.
func (s *Service) Install(ctx context.Context, settings Settings) error {
	if err := settings.check(); err != nil {
		return err
	}
	if err := s.Available(ctx); err != nil {
		return err
	}
	before, _ := s.Installed() // settings that cannot be read are replaced
	err := s.do(ctx, Installing, settings)
	if err != nil {
		back := context.WithoutCancel(ctx)
		if undone := s.Restore(back, before); undone != nil {
			err = errors.Join(err, fmt.Errorf("and it cannot be taken back: %w", undone))
		}
	}
	return err
}

// Remove ends the service and removes its files. Variables that the user added to service.env stay.
func (s *Service) Remove(ctx context.Context) error { return s.do(ctx, Removing, Settings{}) }

// Start starts an installed service.
func (s *Service) Start(ctx context.Context) error { return s.do(ctx, Starting, Settings{}) }

// Stop ends the service until the next login or Start.
func (s *Service) Stop(ctx context.Context) error { return s.do(ctx, Stopping, Settings{}) }

// Restore makes the service as earlier settings had it; nil removes it.
func (s *Service) Restore(ctx context.Context, settings *Settings) error {
	if settings != nil {
		return s.do(ctx, Installing, *settings)
	}
	if err := s.Remove(ctx); !errors.Is(err, ErrNone) {
		return err
	}
	return nil
}

// do makes a change. A removal ends the service before its files go, the others need the files first.
func (s *Service) do(ctx context.Context, action Action, settings Settings) error {
	p, err := s.Plan(action, settings)
	if err != nil {
		return err
	}
	commands := p.Commands
	if action == Removing {
		if err := s.runAll(ctx, commands[:1]); err != nil {
			return err
		}
		commands = commands[1:]
	}
	for _, f := range p.Files {
		if err := f.write(); err != nil {
			return err
		}
	}
	return s.runAll(ctx, commands)
}

// runAll runs commands in their order until one fails.
func (s *Service) runAll(ctx context.Context, commands []Command) error {
	for _, c := range commands {
		if _, err := s.m.Run(ctx, c.Argv...); err != nil && !c.MayFail {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

// write makes the change of a file. Its folder is made if it is missing.
func (f File) write() error {
	if f.Data == nil {
		if err := os.Remove(f.Path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return place.Write(f.Path, f.Data)
}

// Status is the state of a service.
type Status struct {
	Manager   string    `json:"manager"`
	Installed bool      `json:"installed"`
	Enabled   bool      `json:"enabled"` // starts at login
	Running   bool      `json:"running"`
	Since     time.Time `json:"since,omitzero"`
	PID       int       `json:"pid,omitempty"`
	// Lingers reports whether the service runs while the user is logged out. Only systemd has that.
	Lingers  bool      `json:"lingers"`
	State    string    `json:"state,omitempty"` // in the words of the manager
	Unit     string    `json:"unit,omitempty"`
	Log      string    `json:"log,omitempty"` // the command that shows the log
	Settings *Settings `json:"settings,omitempty"`
}

// Status asks the manager for the state of the service.
func (s *Service) Status(ctx context.Context) (Status, error) {
	settings, err := s.Installed()
	if settings == nil && err == nil {
		return Status{Manager: s.manager.title()}, nil
	}
	st, asked := s.manager.status(ctx)
	if asked != nil {
		return st, fmt.Errorf("%s: %w", s.manager.title(), asked)
	}
	st.Manager, st.Installed, st.Unit, st.Log, st.Settings = s.manager.title(), true, s.manager.unit(), s.manager.log(), settings
	return st, err
}
