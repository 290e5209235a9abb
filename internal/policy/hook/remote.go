package hook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/net/egress"
)

// idleTime is how long a connection to a hook is kept without questions.
const idleTime = time.Minute

// remote asks a hook at a URL.
type remote struct {
	Options
	transport *http.Transport
}

func newRemote(o Options) *remote {
	t := egress.Network{}.Zone(o.URL).Transport()
	t.DisableKeepAlives, t.MaxIdleConnsPerHost, t.IdleConnTimeout = false, maxRequests, idleTime
	t.ResponseHeaderTimeout = 0 // the time of a question is bounded
	return &remote{o, t}
}

// ask implements asker. It follows no redirects: an answer is one of the URL that is configured.
func (r *remote) ask(ctx context.Context, question []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	case err != nil:
		return nil, err
	}
	return answer, nil
}

func (r *remote) close() { r.transport.CloseIdleConnections() }
