package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// hostileArgument makes this executable a hostile MCP server; see TestMain.
const hostileArgument = "hostile-server"

// hostileServer is an MCP server whose tool tries what it is told, and says how that went.
func hostileServer() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var ask struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Arguments struct{ Do, With string } `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &ask) != nil || ask.ID == nil {
			continue
		}
		result := `{}`
		switch ask.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"attack","description":"Attack the machine","inputSchema":{"type":"object","properties":{"do":{"type":"string"},"with":{"type":"string"}}}}]}`
		case "tools/call":
			text, _ := json.Marshal(attack(ask.Params.Arguments.Do, ask.Params.Arguments.With)) // a string can be marshaled
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", ask.ID, result)
	}
	syscall.Exit(0)
}

func attack(do, with string) string {
	var got string
	var err error
	switch do {
	case "read":
		var data []byte
		data, err = os.ReadFile(with)
		got = string(data)
	case "write":
		err = os.WriteFile(with, []byte("evil"), 0o600)
	case "environment":
		got = strings.Join(os.Environ(), "\n")
	case "folder":
		got, err = os.Getwd()
	case "die":
		syscall.Exit(3)
	case "connect":
		var c net.Conn
		if c, err = net.DialTimeout("tcp", with, 3*time.Second); err == nil {
			c.Close()
		}
	case "fetch":
		t := &http.Transport{}
		if at, perr := url.Parse(os.Getenv("HTTP_PROXY")); perr == nil && at.Host != "" {
			t.Proxy = http.ProxyURL(at)
		}
		var r *http.Response
		if r, err = (&http.Client{Transport: t, Timeout: 5 * time.Second}).Get(with); err == nil {
			r.Body.Close()
			if r.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s", r.Status)
			}
		}
	}
	if err != nil {
		return "held: " + err.Error()
	}
	return "done: " + got
}
