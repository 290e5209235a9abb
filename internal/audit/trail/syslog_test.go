package trail

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/config"
)

// TestSyslog: a collector gets the lines of the log, each as it is in the file and in the file's order, or the events of
// OCSF. A collector that cannot be used by the configuration is a fault at the start.
func TestSyslog(t *testing.T) {
	for _, format := range []string{"json", "ocsf"} {
		t.Run(format, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			messages := make(chan []string, 1)
			go func() { messages <- receive(l) }()
			dir := filepath.Join(t.TempDir(), "audit")
			c, _, err := config.Parse("weir.yaml", fmt.Appendf(nil, "mcpServers: {a: {command: a}}\naudit: {dir: %q, syslog: {url: 'tcp://%s', format: %s}}", dir, l.Addr(), format), config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			log, err := Open(t.Context(), c, "9", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				log.Add(&audit.Record{Kind: audit.End, Principal: "ann", Method: "tools/call", ToolID: fmt.Sprint("t", i), Outcome: "ok"})
			}
			figures := log.SinkFigures()
			log.Close()
			got := <-messages
			files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			text, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			if sent, dropped := figures(); len(got) != len(lines) || int(sent) != len(lines) || dropped != 0 {
				t.Fatalf("%d messages of %d lines; sent %d, dropped %d", len(got), len(lines), sent, dropped)
			}
			for i, line := range lines {
				if _, said, _ := strings.Cut(got[i], " - {"); format == "json" && "{"+said != line || format == "ocsf" && !strings.Contains(said, `"class_uid":6003`) {
					t.Errorf("message %d: %s\nwant %s", i, got[i], line)
				}
			}
		})
	}
	for at, want := range map[string]string{
		"ca: /nowhere.pem": "audit.syslog.ca: ", "ca: " + os.Args[0]: "no certificate in PEM", "cert: /nowhere.pem, key: /nowhere.pem": "audit.syslog.cert: ",
	} {
		c, _, err := config.Parse("weir.yaml", fmt.Appendf(nil, "mcpServers: {a: {command: a}}\naudit: {dir: %q, syslog: {url: 'tls://siem.example.com:6514', %s}}", filepath.Join(t.TempDir(), "audit"), at), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), c, "", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// receive returns the messages of one connection.
func receive(l net.Listener) (all []string) {
	c, err := l.Accept()
	if err != nil {
		return nil
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		length, err := r.ReadString(' ')
		n, _ := strconv.Atoi(strings.TrimSpace(length))
		if err != nil || n == 0 {
			return all
		}
		var message bytes.Buffer
		if _, err := io.CopyN(&message, r, int64(n)); err != nil {
			return all
		}
		all = append(all, message.String())
	}
}
