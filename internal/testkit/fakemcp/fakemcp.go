package fakemcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Init is the behavior of the server when it is asked to initialize or to describe itself.
type Init string

// The ways to start a connection.
const (
	InitNormal       Init = ""              // answers
	InitHang         Init = "hang"          // answers neither initialize nor server/discover
	InitExit         Init = "exit"          // explains itself on stderr and exits with code 1
	InitError        Init = "error"         // answers with an error
	InitJunk         Init = "junk"          // writes lines that are no messages around every message (stdio)
	InitHangDiscover Init = "hang-discover" // never answers server/discover, but does answer initialize
	InitExitDiscover Init = "exit-discover" // exits with code 1 on server/discover
)

func inits() []Init {
	return []Init{InitNormal, InitHang, InitExit, InitError, InitJunk, InitHangDiscover, InitExitDiscover}
}

// Modern is the protocol version without sessions; all others are legacy.
const Modern = "2026-07-28"

// Versions lists the protocol versions the server can speak, newest first.
func Versions() []string {
	return []string{Modern, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

const (
	maxMessage  = 256 << 20 // bytes of one message
	maxPayload  = 128 << 20 // bytes that echo makes on demand
	maxEvents   = 1000
	maxChildren = 16
	maxSessions = 10_000
	maxInFlight = 1024 // calls of one client that wait for something
	maxTools    = 100_000
)

// Config is the offer of the server and its faults. The zero value is a well-behaved server with
// the tools that the package brings along and no others.
type Config struct {
	Name     string   // in serverInfo; "fakemcp" if empty
	Versions []string // protocol versions spoken, newest first; nil means all of Versions

	Tools int  // further tools tool_0000, tool_0001, … that echo
	Pages int  // pages that tools/list takes; 0 means 1
	Bare  bool // list only the further tools

	Broken bool // list tools whose inputSchema is broken, each in another way; all of them echo

	Init                  Init
	ListChangedBeforeInit bool          // send notifications/tools/list_changed ahead of the initialize result
	StartDelay            time.Duration // wait before the answer to initialize and server/discover

	Stream      bool // answer every HTTP request with an event stream, not only where it is needed
	NoSessions  bool // give out no session ids to legacy clients over HTTP
	LoseSession int  // forget an HTTP session at its tools/call after so many; 0 means never

	// Log, if set, is a file to which events are appended as they happen, one a line; see
	// [Server.Events].
	Log string

	Stderr io.Writer      // for people; nil means none
	Exit   func(code int) // ends the process where a fault says so; nil means os.Exit
}

// Server is a fake MCP server. Its methods may be called concurrently; one Server can be
// served on several transports at once.
type Server struct {
	cfg      Config
	info     string // serverInfo as JSON
	tools    map[string]*tool
	listing  atomic.Pointer[listing]
	ctx      context.Context // ends with Close
	stop     context.CancelCauseFunc
	work     sync.WaitGroup // children that are waited for
	messages atomic.Int64
	buffers  sync.Pool // of *buffer, for HTTP

	everybody *client // the one client of the modern era and of a server without sessions

	mu       sync.Mutex // guards below
	events   []string
	sessions map[string]*client // of streamable HTTP
	conns    map[string]*conn   // of HTTP+SSE
	subs     map[*subscription]struct{}
	children []*exec.Cmd
	nextID   int
}

// errStopped ends calls that are in flight when the server closes.
var errStopped = errors.New("fakemcp: server closed")

// New makes a server. The error names the setting that cannot be.
func New(cfg Config) (*Server, error) {
	if cfg.Name == "" {
		cfg.Name = "fakemcp"
	}
	if cfg.Versions == nil {
		cfg.Versions = Versions()
	}
	if cfg.Exit == nil {
		cfg.Exit = os.Exit
	}
	if cfg.Stderr == nil {
		cfg.Stderr = io.Discard
	}
	cfg.Pages = max(cfg.Pages, 1)
	if len(cfg.Versions) == 0 {
		return nil, errors.New("fakemcp: no protocol version")
	}
	for _, v := range cfg.Versions {
		if !slices.Contains(Versions(), v) {
			return nil, fmt.Errorf("fakemcp: unknown protocol version %q: there are %s", v, strings.Join(Versions(), ", "))
		}
	}
	if !slices.Contains(inits(), cfg.Init) {
		return nil, fmt.Errorf("fakemcp: unknown init %q: there are %q", cfg.Init, inits()[1:])
	}
	if cfg.Tools < 0 || cfg.Tools > maxTools {
		return nil, fmt.Errorf("fakemcp: %d tools: there may be 0 to %d", cfg.Tools, maxTools)
	}
	s := &Server{
		cfg:   cfg,
		info:  `{"name":` + string(appendString(nil, cfg.Name)) + `,"version":"1"}`,
		tools: map[string]*tool{},

		everybody: newClient(),
		sessions:  map[string]*client{},
		conns:     map[string]*conn{},
		subs:      map[*subscription]struct{}{},
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	for _, t := range builtin() {
		s.tools[t.name] = t
	}
	s.listing.Store(newListing(cfg, cfg.Tools))
	return s, nil
}

// Close ends calls in flight, kills the children that were spawned and waits for them.
func (s *Server) Close() {
	s.stop(errStopped)
	s.mu.Lock()
	children := s.children
	s.children = nil
	s.mu.Unlock()
	for _, c := range children {
		// The child may have ended by itself; then there is nothing to kill.
		_ = c.Process.Kill()
	}
	s.work.Wait()
}

// Events lists the events so far, oldest first, the last 1,000 at most:
//
//	initialize VERSION · discover · session ID · session lost ID · session deleted ID
//	sleeping CALL · cancelled CALL · disconnected CALL · finished CALL · spawned PID · input closed
//
// CALL is the id of a call to the tool sleep, as JSON.
func (s *Server) Events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Messages is the number of messages received so far.
func (s *Server) Messages() int64 { return s.messages.Load() }

func (s *Server) record(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == maxEvents {
		s.events = slices.Delete(s.events, 0, 1)
	}
	s.events = append(s.events, event)
	if s.cfg.Log == "" {
		return
	}
	// Opened for each line, so that a crash right after it loses nothing.
	f, err := os.OpenFile(s.cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(event + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintf(s.cfg.Stderr, "fakemcp: event log: %v\n", err)
	}
}

// spawn starts a child that outlives the server's process, in the same process group.
func (s *Server) spawn() (pid int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.children) >= maxChildren {
		return 0, fmt.Errorf("%d children are enough", maxChildren)
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		return 0, err
	}
	s.children = append(s.children, child)
	// Wait for it at once, so that no test takes a zombie for a survivor.
	s.work.Go(func() { _ = child.Wait() })
	return child.Process.Pid, nil
}

func (s *Server) newID(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	return prefix + strconv.Itoa(s.nextID)
}

func (s *Server) speaks(version string) bool { return slices.Contains(s.cfg.Versions, version) }

func (s *Server) speaksLegacy() bool {
	return slices.ContainsFunc(s.cfg.Versions, func(v string) bool { return v != Modern })
}

// A subscription wants to hear that the list of tools changed.
type subscription struct {
	id   []byte // of the subscriptions/listen request, as JSON; nil for a legacy client
	send func(msg []byte)
}

func (s *Server) subscribe(sub *subscription) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[sub] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, sub)
	}
}

// announce notifies every subscription that the list of tools changed.
func (s *Server) announce() {
	s.mu.Lock()
	subs := make([]*subscription, 0, len(s.subs))
	for sub := range s.subs {
		subs = append(subs, sub)
	}
	s.mu.Unlock()
	for _, sub := range subs {
		sub.send(listChanged(sub.id))
	}
}

func listChanged(subscriptionID []byte) []byte {
	msg := []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`)
	if subscriptionID != nil {
		msg = append(msg, `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`...)
		msg = append(append(msg, subscriptionID...), "}}"...)
	}
	return append(msg, '}')
}
