package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/filewatch"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// computerFlags are the flags of weir computer.
type computerFlags struct {
	config, hub, office, namespace, name, token, tokenFile, version, key, ca, skills, uploads, autoApply string

	inputs                                                []string
	showKey, interactive, batch, pollFirst, exitOnRefusal bool
}

// computerFiles are the configuration files that weir computer looks for in the current folder.
var computerFiles = []string{"computer.json", "computer.yaml", "computer.yml", "mcp.json", ".mcp.json"}

// tokenVariable names the variable with the token if no flag gives one.
const tokenVariable = "WEIR_HUB_TOKEN"

// Defaults of flags.
const (
	defaultOffice = "weir"
	defaultHub    = "http://127.0.0.1:8088"
	joinPatience  = 10 * time.Second // wait this long for the hub before the shell starts
)

func computerCommand(a *process) *cobra.Command {
	var f computerFlags
	cmd := &cobra.Command{
		Use:   "computer",
		Short: "Offer this machine's MCP servers to a hub",
		Long: `Run MCP servers on this machine and offer them in an office of a hub, over a
connection that goes out from here: no port is open, and credentials stay here.
A gateway that is in the office lists each server as <name>-<server>.

The configuration is that of MCP clients (mcpServers) or of A2C-SMCP (servers
with server_parameters, inputs). A change of the file is applied while it runs.
Without --config it is computer.json, computer.yaml, mcp.json or .mcp.json of
this folder.

A tool that is not auto_apply needs your yes for each call: in the shell you are
asked; without a terminal such calls are refused, unless --auto-apply is given.
--auto-apply=read_only calls without asking what only reads.

On a terminal this is a shell (type help); otherwise, and with --batch, it runs
until it is told to end.`,
		Example: `  weir computer --hub http://127.0.0.1:8088 --config mcp.json
  weir computer --hub https://hub.example --office lab --name desk --key desk.pem --auto-apply --batch
  weir computer --hub https://hub.example --config mcp.json --auto-apply=read_only
  weir computer --key desk.pem --show-key`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runComputer(a, cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "configuration of the MCP servers")
	fl.StringVar(&f.hub, "hub", defaultHub, "URL of the hub, or of a weir serve")
	fl.StringVar(&f.office, "office", defaultOffice, "office to join")
	fl.StringVar(&f.namespace, "namespace", smcp.Namespace, "Socket.IO namespace of the hub")
	fl.StringVar(&f.name, "name", "", "this Computer's name, unique in the office (default: the machine's)")
	fl.StringVar(&f.token, "token", "", "token for the hub (default: the variable "+tokenVariable+")")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the token, read for each connection: for tokens that end and are renewed")
	fl.StringVar(&f.version, "a2c-version", "", "protocol version to say, such as 0.4.0 (default: none)")
	fl.StringVar(&f.key, "key", "", "file with this Computer's private key, made where it is not there: signs results, and proves the name to a hub that binds it")
	fl.BoolVar(&f.showKey, "show-key", false, "print the public half of --key and end")
	fl.StringVar(&f.ca, "ca", "", "PEM file with the authority of the hub's certificate")
	fl.StringVar(&f.skills, "skills", "", "folder of skills, each a folder with a SKILL.md")
	fl.StringVar(&f.uploads, "uploads", "", "folder where agents may put files (default: they may not)")
	fl.StringArrayVar(&f.inputs, "input", nil, "value of an input, id=value; may be repeated")
	fl.StringVar(&f.autoApply, "auto-apply", "", "make every call without asking; with --auto-apply=read_only only calls of tools whose server says that they only read, where the configuration says nothing")
	fl.Lookup("auto-apply").NoOptDefVal = string(computer.ApplyAll)
	fl.BoolVar(&f.interactive, "interactive", false, "run the shell although this is no terminal")
	fl.BoolVar(&f.batch, "batch", false, "run no shell although this is a terminal")
	fl.BoolVar(&f.exitOnRefusal, "exit-on-refusal", false, "end with exit code "+strconv.Itoa(exitRefused)+" where the hub refuses this Computer for good (default: go on trying, and say why every five minutes)")
	fl.BoolVar(&f.pollFirst, "polling", false, "connect with HTTP long-polling and then change to WebSocket, for proxies that need it")
	return cmd
}

func runComputer(a *process, ctx context.Context, f computerFlags) error {
	key, err := computerKey(a.stdout, f)
	if err != nil || f.showKey {
		return err
	}
	path, err := findComputerConfig(f.config)
	if err != nil {
		return err
	}
	file, data, err := readComputerConfig(a, path)
	if err != nil {
		return err
	}
	hub, err := computerHub(a.lookupEnv, f)
	if err != nil {
		return err
	}
	if f.name == "" {
		if f.name, err = os.Hostname(); err != nil {
			return failf(exitUsage, "this machine has no name (%w); pass one with --name", err)
		}
	}
	log := newEventLog(a.stderr, &config.Config{Log: config.Log{Level: "info", Format: config.LogAuto}})
	interactive := !f.batch && (f.interactive || onTerminal(a))
	if interactive {
		log.Level.Set(slog.LevelWarn)
	}
	sh := newComputerShell(a)
	o := computer.Options{
		Name: f.name, Key: key, LookupEnv: a.lookupEnv, BaseEnv: lineage.Inherited(a.environ()), Dir: filepath.Dir(path), Skills: f.skills, Landing: f.uploads,
		ClientInfo: part.Identity(a.version), Logger: log.Logger, RunCommand: runInputCommand,
	}
	lineage, err := descend(a.lookupEnv, path)
	if err != nil {
		return err
	}
	o.StopGrace, o.Marks, o.Instances = gateway.StopGrace, lineage.Variable(), lineage.Instances()
	if interactive {
		o.Ask, o.Confirm = sh.ask, sh.confirm
	}
	if err := f.consent(&o); err != nil {
		return err
	}
	c, err := computer.New(o)
	if err != nil {
		return failf(exitUsage, "%w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), part.CloseTimeout)
		defer cancel()
		if err := c.Close(closing); err != nil {
			log.Warn("MCP servers did not end by themselves and were killed", "err", err)
		}
	}()
	if err := c.Load(ctx, file); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			a.note("%s", line)
		}
	}
	if err := setInputs(a, ctx, c, f.inputs); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if f.exitOnRefusal {
		hub.OnRefused = func(reason error) { giveUp(failf(exitRefused, "%w", reason)) }
	}
	if err := c.Connect(ctx, hub); err != nil {
		return failf(exitUsage, "%w", err)
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchComputer(watching, c, path, data, log.Logger)
	}()
	defer func() { stop(); <-watched }()
	introduceComputer(a, ctx, c, f)
	if interactive {
		err = sh.run(ctx, c)
	} else {
		<-ctx.Done()
	}
	var refused *failure
	if errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	return err
}

// consent puts the rules of --auto-apply into the options of a Computer.
func (f *computerFlags) consent(o *computer.Options) error {
	switch f.autoApply {
	case "":
	case string(computer.ApplyAll), "true":
		o.Confirm = func(context.Context, computer.Confirmation) (bool, error) { return true, nil }
	case string(computer.ApplyReadOnly):
		o.AutoApply = computer.ApplyReadOnly
	default:
		return failf(exitUsage, "--auto-apply=%s: it is all or read_only", f.autoApply)
	}
	return nil
}

// onTerminal reports whether a person uses this process at a terminal.
func onTerminal(a *process) bool {
	keyboard, ok := a.stdin.(*os.File)
	return ok && screenWidth(keyboard) > 0 && a.stdout.screen()
}

// introduceComputer prints the servers of the Computer and waits a while for the hub.
func introduceComputer(a *process, ctx context.Context, c *computer.Computer, f computerFlags) {
	waiting, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	err := c.Joined(waiting)
	out := a.stdout
	fmt.Fprintf(out, "\n%s\n\n", out.paint(bold, "Computer "+c.Name()+", "+counted(len(c.Servers()), "MCP server")))
	fmt.Fprintf(out, "  %-10s %s\n  %-10s %s\n", "hub", out.paint(cyan, withoutPassword(f.hub)), "office", f.office)
	if err != nil && ctx.Err() == nil {
		a.note("Not in the office yet: %v. It is tried again.", err)
	}
	for _, problem := range c.Problems() {
		a.note("%s", problem)
	}
	fmt.Fprintln(out)
}

// computerHub returns the hub to join.
func computerHub(lookupEnv func(string) (string, bool), f computerFlags) (computer.Hub, error) {
	token := f.token
	if token == "" {
		token, _ = lookupEnv(tokenVariable)
	}
	h := computer.Hub{URL: f.hub, Office: f.office, Namespace: f.namespace, Token: token, Version: f.version, KeepTrying: true}
	if f.tokenFile != "" {
		if f.token != "" {
			return h, failf(exitUsage, "--token and --token-file exclude each other")
		}
		h.TokenSource = func() (string, error) { return tokenIn(f.tokenFile) }
	}
	h.Engine = engineio.ClientConfig{Proxy: http.ProxyFromEnvironment}
	if !f.pollFirst {
		h.Engine.Transports = []engineio.Transport{engineio.WebSocket}
	}
	if f.version != "" {
		if _, err := a2c.ParseVersion(f.version); err != nil {
			return h, failf(exitUsage, "--a2c-version: %w", err)
		}
	}
	if f.ca != "" {
		pool, err := place.CertPool(f.ca)
		if err != nil {
			return h, failf(exitUsage, "--ca: %w", err)
		}
		h.Engine.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return h, nil
}

// maxTokenFile is the most that a token file may have.
const maxTokenFile = 64 << 10

// tokenIn reads a token from a file. White space around the token does not count.
func tokenIn(file string) (string, error) {
	f, err := place.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	token := strings.TrimSpace(string(raw))
	switch {
	case err != nil:
		return "", err
	case len(raw) > maxTokenFile || token == "" || strings.ContainsAny(token, "\r\n"):
		return "", fmt.Errorf("%s must hold one token on one line", file)
	}
	return token, nil
}

// computerKey reads the private key. If the file does not exist, it generates a key.
func computerKey(stdout terminal, f computerFlags) (ed25519.PrivateKey, error) {
	if f.key == "" {
		if f.showKey {
			return nil, failf(exitUsage, "--show-key needs --key FILE")
		}
		return nil, nil
	}
	data, err := place.ReadFile(f.key)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = makeKey(f.key)
	}
	if err != nil {
		return nil, failf(exitUsage, "--key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, failf(exitUsage, "--key: %s holds no PEM block", f.key)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, failf(exitUsage, "--key: %s holds no Ed25519 private key; openssl genpkey -algorithm ed25519 makes one", f.key)
	}
	if f.showKey {
		fmt.Fprintln(stdout, smcp.EncodeKey(key.Public().(ed25519.PublicKey)))
	}
	return key, nil
}

func makeKey(file string) ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = out.Write(data)
	return data, errors.Join(err, out.Close())
}

func findComputerConfig(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	for _, name := range computerFiles {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	return "", failf(exitUsage, "this folder has none of %s; pass the configuration of your MCP client with --config FILE", strings.Join(computerFiles, ", "))
}

func readComputerConfig(a *process, path string) (file *computer.File, data []byte, err error) {
	if data, err = place.ReadFile(path); err == nil {
		file, err = computer.Parse(path, data)
	}
	if err != nil {
		return nil, nil, failf(exitUsage, "%w", err)
	}
	for _, w := range file.Warnings {
		a.note("%s", w)
	}
	return file, data, nil
}

// setInputs sets inputs to the values of the command line.
func setInputs(a *process, ctx context.Context, c *computer.Computer, pairs []string) error {
	for _, pair := range pairs {
		id, value, ok := strings.Cut(pair, "=")
		if !ok {
			return failf(exitUsage, "--input %q: write id=value", pair)
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := c.SetInput(ctx, id, raw); err != nil {
			return failf(exitUsage, "--input: %w", err)
		}
		if name, ok := c.InputVariable(id); ok {
			a.note("--input %s has no effect: the variable %s answers it", id, name)
		}
	}
	return nil
}

// watchComputer applies changes of the configuration until ctx ends. It starts with the changes
// that came after data was read.
func watchComputer(ctx context.Context, c *computer.Computer, path string, data []byte, log *slog.Logger) {
	err := filewatch.Watch(ctx, path, func() {
		now, err := place.ReadFile(path)
		if err != nil || bytes.Equal(now, data) || ctx.Err() != nil {
			return
		}
		data = now
		file, err := computer.Parse(path, data)
		if err == nil {
			err = c.Load(ctx, file)
		}
		if err != nil {
			log.Error("the changed configuration is not applied whole", "err", err)
			return
		}
		log.Info("the configuration has changed and is applied", "servers", len(file.Servers))
	})
	if err != nil {
		log.Warn("changes of the configuration are not noticed; start the Computer again after a change", "err", err)
	}
}

// runInputCommand runs the command of an input: directly if it has arguments, otherwise as a shell
// command line.
func runInputCommand(ctx context.Context, in computer.Input) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, inputTimeout)
	defer cancel()
	args, err := commandArgs(in.Args)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, in.Command, args...)
	if len(args) == 0 && strings.ContainsAny(in.Command, " |&;<>$") {
		cmd = exec.CommandContext(ctx, "sh", "-c", in.Command)
	}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", in.Command, err)
	}
	return string(out), nil
}

// commandArgs reads arguments: a list, or a mapping whose keys become options.
func commandArgs(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list, nil
	}
	var named map[string]string
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, errors.New("args must be a list or a mapping of texts")
	}
	for key, value := range named {
		list = append(list, "--"+strings.TrimLeft(key, "-")+"="+value)
	}
	slices.Sort(list)
	return list, nil
}
