package attach

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Protocol is the name of the HTTP upgrade of /mcp.
const Protocol = "weir-lines"

// ClientHeader is the header with the name of the client, for the gateway's log.
const ClientHeader = "Weir-Client"

// dialWait bounds connecting and the upgrade.
const dialWait = 5 * time.Second

// upgraded is a TCP connection after an HTTP upgrade.
type upgraded struct {
	*net.TCPConn
	buffered *bufio.Reader
}

// Read implements io.Reader: the bytes that came with the response are first.
func (u *upgraded) Read(p []byte) (int, error) { return u.buffered.Read(p) }

// Dial connects to the gateway at an http URL of /mcp.
func Dial(ctx context.Context, url string, header http.Header) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", Protocol)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", req.URL.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	buffered := bufio.NewReader(conn)
	err = req.Write(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(buffered, req)
	}
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // only for the message
		err = fmt.Errorf("the gateway at %s answered %s to weir attach: %s", req.URL.Redacted(), resp.Status, body)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &upgraded{conn.(*net.TCPConn), buffered}, nil
}
