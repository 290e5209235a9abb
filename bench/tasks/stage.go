package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// server is how a server is started.
type server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

// setup is the file of -servers.
type setup struct {
	// Servers are the servers of the tasks. $ROOT in an argument is the folder of the tasks.
	Servers map[string]server `json:"servers"`
	// Listed only make the catalog larger: each is started once, and its list is kept in the folder
	// Lists. After that this program serves the list in its place.
	Listed map[string]server `json:"listed"`
	Lists  string            `json:"lists"`
}

// stage is the servers, and the folder and the web site of the tasks.
type stage struct {
	weir    string // the program
	dir     string
	root    string // the folder of the tasks, made again for each way
	servers map[string]server
	values  *strings.Replacer // of $ROOT and $WEB
	masks   *strings.Replacer // the reverse, for counted texts: two runs have folders and ports of their own
	site    *site
	tools   int
}

// startTime bounds the start of all servers.
const startTime = 3 * time.Minute

func newStage(ctx context.Context, weir, file string) (s *stage, err error) {
	s = &stage{weir: weir, servers: map[string]server{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "weir-tasks-"); err != nil {
		return s, err
	}
	if s.site, err = newSite(); err != nil {
		return s, err
	}
	s.root = filepath.Join(s.dir, "work")
	s.values = strings.NewReplacer("$ROOT", s.root, "$WEB", s.site.url)
	s.masks = strings.NewReplacer(s.root, "/srv/work", s.site.url, "http://intranet")
	for _, name := range []string{"chart", "notes", "weather"} {
		s.servers[name] = server{Command: s.weir, Args: []string{"demo", name}}
	}
	if file == "" {
		return s, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	var given setup
	if err := json.Unmarshal(text, &given); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	for name, srv := range given.Servers {
		for i, arg := range srv.Args {
			srv.Args[i] = s.values.Replace(arg)
		}
		for key, value := range srv.Env {
			srv.Env[key] = s.values.Replace(value)
		}
		s.servers[name] = srv
	}
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	for name, srv := range given.Listed {
		list := filepath.Join(given.Lists, name+".json")
		if err := s.keepList(ctx, name, srv, list); err != nil {
			return s, err
		}
		s.servers[name] = server{Command: self, Args: []string{"-serve", list}}
	}
	return s, nil
}

func (s *stage) close() {
	if s.site != nil {
		s.site.close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // a folder for temporary files
	}
}

func (s *stage) has(name string) bool { _, ok := s.servers[name]; return ok }

// environ is the environment of every program: a home folder of its own, git, and nothing else of this
// one.
func (s *stage) environ(own map[string]string) []string {
	search := "/usr/bin:/bin"
	if git, err := exec.LookPath("git"); err == nil {
		search = filepath.Dir(git) + ":" + search
	}
	env := []string{"HOME=" + filepath.Join(s.dir, "home"), "PATH=" + search, "LANG=C.UTF-8", "TZ=UTC", "TMPDIR=" + s.dir}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		env = append(env, key+"="+own[key])
	}
	return env
}

// prepare makes the folder of the tasks.
func (s *stage) prepare(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(s.root), os.MkdirAll(filepath.Join(s.dir, "home"), 0o700)); err != nil {
		return err
	}
	if err := writeFiles(s.root); err != nil {
		return err
	}
	if !s.has("sqlite") {
		return nil
	}
	if err := makeRepository(ctx, filepath.Join(s.root, "repo"), s.environ(nil)); err != nil {
		return err
	}
	shop, err := s.direct(ctx, "sqlite", s.servers["sqlite"])
	if err != nil {
		return err
	}
	defer shop.close()
	return fillShop(ctx, shop.conn)
}

// own is a server that this program started.
type own struct {
	conn *mcp.Conn
	list []json.RawMessage // its definitions
}

func (o *own) close() { _ = o.conn.Close() } // its process ends with it

// direct starts a server and reads its list.
func (s *stage) direct(ctx context.Context, name string, srv server) (*own, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p, err := stdio.Start(stdio.Command{Name: name, Path: srv.Command, Args: srv.Args, Env: s.environ(srv.Env), Dir: s.dir})
	if err != nil {
		return nil, err
	}
	o := &own{conn: mcp.NewConn(p, mcp.ConnOptions{Name: name, Client: true, Junk: func([]byte, error) {}})}
	_, err = mcp.Handshake(ctx, o.conn, json.RawMessage(`{"name":"tasks","version":"1"}`), json.RawMessage(clientCan), mcp.V20251125)
	for cursor := ""; err == nil; {
		var page json.RawMessage
		page, err = o.conn.Call(ctx, "tools/list", json.RawMessage(cursorParams(cursor)), nil)
		_ = rawjson.EachElement(rawjson.Get(page, "tools"), func(tool []byte) bool {
			o.list = append(o.list, slices.Clone(tool))
			return true
		})
		if cursor = rawjson.Text(rawjson.Get(page, "nextCursor")); cursor == "" {
			break
		}
	}
	if err == nil && len(o.list) == 0 {
		err = errors.New("it has no tools")
	}
	if err != nil {
		err = fmt.Errorf("server %s: %w %.300s", name, err, p.LastWords())
		o.close()
		return nil, err
	}
	return o, nil
}

func cursorParams(cursor string) string {
	if cursor == "" {
		return "{}"
	}
	return fmt.Sprintf(`{"cursor":%s}`, rawjson.Quote(cursor))
}

// clientCan is what the client of the tasks says of itself.
const clientCan = `{"elicitation":{"form":{}},"tasks":{"requests":{"elicitation":{"create":{}}}}}`

// keepList writes the list of a server into a file, unless the file is there.
func (s *stage) keepList(ctx context.Context, name string, srv server, file string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	o, err := s.direct(ctx, name, srv)
	if err != nil {
		return err
	}
	defer o.close()
	text, err := json.Marshal(o.list)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// serveList serves a kept list on standard input and output.
func serveList(ctx context.Context, file string, stdin io.ReadCloser, stdout io.Writer) error {
	list, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	conn := mcp.NewConn(stdio.NewStream(stdin, stdout, 1<<20, stdin.Close), mcp.ConnOptions{Name: "the client", Handler: &mcp.Lifecycle{
		ServerInfo:   fmt.Appendf(nil, `{"name":%q,"version":"1"}`, strings.TrimSuffix(filepath.Base(file), ".json")),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
		Next: mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			if r.Method == "tools/list" {
				return fmt.Appendf(nil, `{"tools":%s}`, list), nil
			}
			return nil, mcp.MethodNotFound(r.Method)
		}),
	}})
	select {
	case <-ctx.Done():
	case <-conn.Done():
	}
	return conn.Close()
}

// connection is a way to the tools. close ends what it has started.
type connection struct {
	// talk starts the conversation of a task.
	talk  func(ctx context.Context) (t *talk, end func(), err error)
	close func()
}

// native starts all servers. The model has the definitions of all of them.
func (s *stage) native(ctx context.Context) (*connection, error) {
	all := map[string]*own{}
	c := &connection{close: func() {
		for _, o := range all {
			o.close()
		}
	}}
	var definitions []byte
	tasks := map[string]bool{}
	s.tools = 0
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		o, err := s.direct(ctx, name, s.servers[name])
		if err != nil {
			c.close()
			return nil, err
		}
		all[name] = o
		s.tools += len(o.list)
		for _, tool := range o.list {
			definitions = append(append(definitions, ','), tool...)
			if rawjson.Text(rawjson.GetPath(tool, "execution", "taskSupport")) == "required" {
				tasks[name+":"+rawjson.Text(rawjson.Get(tool, "name"))] = true
			}
		}
	}
	ask := func(ctx context.Context, server, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
		o := all[server]
		if o == nil {
			return nil, fmt.Errorf("there is no server %q", server)
		}
		if tasks[server+":"+rawjson.Text(rawjson.Get(params, "name"))] {
			return o.task(ctx, params, back)
		}
		return o.conn.Call(ctx, method, params, back)
	}
	c.talk = func(context.Context) (*talk, func(), error) { return newTalk(s, ask, definitions), func() {}, nil }
	return c, nil
}

// task makes a call that its server answers only with a task. Clients wait for the result; the model
// does not see that.
func (o *own) task(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	params = append(params[:len(params)-1:len(params)-1], `,"task":{"ttl":120000}}`...)
	made, err := o.conn.Call(ctx, "tools/call", params, back)
	if err != nil {
		return nil, err
	}
	id := rawjson.GetPath(made, "task", "taskId")
	if id == nil {
		return nil, fmt.Errorf("there is no task in %.300s", made)
	}
	return o.conn.Call(ctx, "tasks/result", fmt.Appendf(nil, `{"taskId":%s}`, id), back)
}

// urlLine is the line of weir serve that names its URL.
var urlLine = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// gateway starts a weir over all servers. Moves of files need a person, and calls wait for their
// tasks three seconds in place of thirty, so that a task of seconds is a long one.
func (s *stage) gateway(ctx context.Context, program string) (*connection, error) {
	servers, err := json.Marshal(map[string]any{
		"mcpServers": s.servers, "mode": "gateway", "tasks": map[string]any{"wait": "3s"},
		"policy": map[string]any{"rules": []any{map[string]any{"action": "require_approval", "tool": "files:move_file*", "reason": "moves a file"}}},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, "weir.json")
	if err := os.WriteFile(file, servers, 0o600); err != nil {
		return nil, err
	}
	logs, err := os.CreateTemp(s.dir, "weir-*.log")
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	w := exec.Command(program, "serve", "--config", file, "--listen", "127.0.0.1:0")
	w.Env, w.Dir, w.Stderr = s.environ(nil), s.dir, logs
	said, err := w.StdoutPipe()
	if err == nil {
		err = w.Start()
	}
	if err != nil {
		return nil, err
	}
	read := make(chan struct{})
	c := &connection{close: func() {
		_ = w.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(20*time.Second, func() { _ = w.Process.Kill() })
		<-read
		_ = w.Wait() // ended by the signal
		kill.Stop()
	}}
	url := ""
	lines := bufio.NewScanner(said)
	for url == "" && lines.Scan() {
		url = urlLine.FindString(lines.Text())
	}
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, said) // until the end of the process
	}()
	if url == "" {
		err = errors.New("it did not say where it listens")
	} else {
		err = s.ready(ctx, url)
	}
	if err != nil {
		c.close()
		words, _ := os.ReadFile(logs.Name())
		return nil, fmt.Errorf("%s: %w\n%s", program, err, words[max(0, len(words)-2000):])
	}
	c.talk = func(ctx context.Context) (*talk, func(), error) {
		conn, err := streamable.Dial(ctx, streamable.ClientOptions{
			URL: url + "/mcp", Name: "weir", ClientInfo: json.RawMessage(`{"name":"tasks","version":"1"}`),
			Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`), ProtocolVersion: mcp.V20251125,
		})
		if err != nil {
			return nil, nil, err
		}
		end := func() { _ = conn.Close() }
		list, err := conn.Call(ctx, "tools/list", json.RawMessage("{}"), nil)
		if err != nil {
			end()
			return nil, nil, err
		}
		ask := func(ctx context.Context, _, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
			return conn.Call(ctx, method, params, back)
		}
		return newTalk(s, ask, list), end, nil
	}
	return c, nil
}

// ready waits until the gateway has listed every server.
func (s *stage) ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		down, err := notReady(ctx, url)
		if err == nil && len(down) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("not ready: %s", strings.Join(down, ", ")))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// notReady returns the servers that the gateway has not listed yet.
func notReady(ctx context.Context, url string) (down []string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var health struct {
		Upstreams map[string]struct {
			State string
			Tools int
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil {
		return nil, err
	}
	for name, u := range health.Upstreams {
		if u.State != "ready" || u.Tools == 0 {
			down = append(down, name+" "+u.State)
		}
	}
	slices.Sort(down)
	return down, nil
}
