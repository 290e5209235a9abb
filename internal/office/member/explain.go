package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// hubName returns the hub's URL without credentials and query, as error messages show it.
func hubName(o *Options) string {
	if o.Local != nil {
		return "the hub of this process"
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return "the hub"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return "the hub at " + u.String()
}

// explain rewrites a connection error for the user: it names the hub and the cause.
func (m *Member) explain(err error) error {
	var refused *engineio.HandshakeError
	var denied *socketio.ConnectError
	switch {
	case errors.As(err, &refused):
		if refused.Header.Get(a2c.HeaderErrorCode) == strconv.Itoa(smcp.CodeVersion) {
			said := func(key string) string { return rawjson.Text(rawjson.Get(refused.Body, key)) }
			return fmt.Errorf("the hub speaks a2c_version %s to %s, and this peer says %s: say another one, or none", said("min_supported"), said("max_supported"), said("client_version"))
		}
		text := rawjson.Text(rawjson.Get(refused.Body, "message"))
		if text == "" {
			text = rawjson.Text(rawjson.GetPath(refused.Body, "error", "message")) // the peer is a weir gateway whose hub is not ready
		}
		if refused.Status == http.StatusUnauthorized && text != "" {
			return notLetIn(text)
		}
		if text != "" {
			return fmt.Errorf("the hub refused the connection: %s (HTTP %d)", text, refused.Status)
		}
		return fmt.Errorf("the hub refused the connection with HTTP %d; is this the URL of a hub?", refused.Status)
	case errors.As(err, &denied):
		return notLetIn(denied.Message)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s cannot be reached: no answer in time; is it running, and does a firewall let this machine through? (%w)", m.hub, err)
	}
	return fmt.Errorf("%s cannot be reached: %w", m.hub, err)
}

func notLetIn(why string) error {
	return fmt.Errorf("the hub does not let this peer in (%s): pass the token that its operator gave you", why)
}
