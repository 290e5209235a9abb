package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// ErrNotSent is the cause of an error of Call or Notify whose message certainly
// never reached the other side: nothing was done, so the same call may be made
// again on another connection. The absence of ErrNotSent says nothing.
var ErrNotSent = errors.New("the message never reached the other side")

// ErrFinal is the cause of an error that says: the same message would meet the
// same end, or the other side has taken it and must not get it twice. It is never
// sent again.
var ErrFinal = errors.New("the same message would fail again")

// ErrLoop is the cause of an error that says: the other side is this process, or one
// that would start this process again.
var ErrLoop = errors.New("the other side is the one that asks")

// ErrRefused is the cause of an error that says: the other side is there, but
// does not take this message at all (an HTTP status such as 404 or 405 without
// a JSON-RPC answer). Handshake then tries the other era, and whoever knows
// another transport may try that.
var ErrRefused = errors.New("the other side does not take this message")

// ProbeTimeout bounds a request that only finds out which era a server speaks,
// because a server of the other era may leave it unanswered.
const ProbeTimeout = 5 * time.Second

// Hello is what a server said of itself in the handshake.
type Hello struct {
	// Version is the protocol version that governs the connection.
	Version string
	// Modern says that Version belongs to the modern era: no session, and the
	// client's side of the handshake goes with every request.
	Modern bool
	// ServerInfo and Capabilities are raw objects, nil where the server gave none.
	ServerInfo, Capabilities json.RawMessage
	// Instructions are for the model; may be empty.
	Instructions string
	// Raw is the whole result of initialize or server/discover.
	Raw json.RawMessage
}

// Handshake introduces weir to the server behind p and returns what the server
// said of itself. clientInfo is a raw object; capabilities too, {} where nil.
//
// version is the one to begin with: "" or a legacy one asks initialize first, a
// modern one asks server/discover first. Whatever the server refuses, or leaves
// unanswered for ProbeTimeout where it was only a probe, is followed by the
// other:
//
//	initialize ──result──▶ notifications/initialized ──▶ legacy
//	    └──error──▶ server/discover ──result──▶ modern
//	                     └──error──▶ the error of initialize
//
// A refusal that lists versions is followed by one of these. When p has a
// method Session() *Session, the negotiated version is set there before the
// server learns that the handshake is complete. A server that speaks no
// version of weir's is an error of KindUnsupportedVersion.
func Handshake(ctx context.Context, p Peer, clientInfo, capabilities json.RawMessage, version string) (Hello, error) {
	h := handshake{peer: p, info: clientInfo, capabilities: capabilities}
	if len(h.info) == 0 {
		h.info = json.RawMessage(`{"name":"weir","version":"0"}`)
	}
	if len(h.capabilities) == 0 {
		h.capabilities = json.RawMessage("{}")
	}
	if IsModern(version) {
		if !Supported(version) {
			version = V20260728
		}
		hello, err := h.probe(ctx, version)
		if err == nil || !h.goOn(ctx, err) {
			return hello, err
		}
		version = ""
	}
	if !Supported(version) {
		version = LatestLegacy
	}
	hello, err := h.initialize(ctx, version)
	if other := h.offered(err, false); other != "" && other != version {
		hello, err = h.initialize(ctx, other)
	}
	if err == nil || h.probed || !h.goOn(ctx, err) {
		return hello, err
	}
	if hello, probeErr := h.probe(ctx, V20260728); probeErr == nil {
		return hello, nil
	}
	return Hello{}, err
}

type handshake struct {
	peer               Peer
	info, capabilities json.RawMessage
	probed             bool // the modern era has been tried
}

// goOn reports whether err leaves hope that the server speaks the other era.
func (h *handshake) goOn(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) || errors.Is(err, ErrRefused) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	k, _ := KindOf(err)
	return k == KindUnsupportedVersion
}

// offered returns the newest version of the given era that err, a refusal,
// lists and weir speaks, or "".
func (h *handshake) offered(err error, modern bool) string {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		return ""
	}
	return choose(rawjson.Get(wire.Data, "supported"), modern)
}

// choose returns the newest version of an era in a raw list, or "".
func choose(list []byte, modern bool) string {
	var theirs []string
	if json.Unmarshal(list, &theirs) != nil {
		return ""
	}
	for _, v := range Versions {
		if IsModern(v) == modern && slices.Contains(theirs, v) {
			return v
		}
	}
	return ""
}

func (h *handshake) initialize(ctx context.Context, version string) (Hello, error) {
	params := append([]byte(`{"protocolVersion":`), rawjson.Quote(version)...)
	params = append(append(params, `,"capabilities":`...), h.capabilities...)
	params = append(append(append(params, `,"clientInfo":`...), h.info...), '}')
	result, err := h.peer.Call(ctx, "initialize", params, nil)
	if err != nil {
		return Hello{}, err
	}
	var out [4][]byte
	if err := rawjson.Fields(result, []string{"protocolVersion", "capabilities", "serverInfo", "instructions"}, out[:]); err != nil {
		return Hello{}, Errorf(KindUpstreamProtocol, "the server's initialize result cannot be read: %v", err)
	}
	answered := rawjson.Text(out[0])
	if !Supported(answered) || IsModern(answered) {
		return Hello{}, UnsupportedVersion(answered)
	}
	h.setVersion(answered)
	if err := h.peer.Notify(ctx, "notifications/initialized", nil); err != nil {
		return Hello{}, err
	}
	return Hello{
		Version: answered, Raw: result, Capabilities: out[1], ServerInfo: out[2], Instructions: rawjson.Text(out[3]),
	}, nil
}

// setVersion tells the connection which version governs it.
func (h *handshake) setVersion(version string) {
	if c, ok := h.peer.(interface{ Session() *Session }); ok {
		c.Session().SetVersion(version)
	}
}

// probe asks server/discover, in a version that the server lists if it does not
// take the first.
func (h *handshake) probe(ctx context.Context, version string) (Hello, error) {
	h.probed = true
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	hello, err := h.discover(ctx, version)
	if other := h.offered(err, true); other != "" && other != version {
		hello, err = h.discover(ctx, other)
	}
	return hello, err
}

func (h *handshake) discover(ctx context.Context, version string) (Hello, error) {
	params := append([]byte(`{"_meta":`), ModernMeta(version, h.info, h.capabilities)...)
	result, err := h.peer.Call(ctx, "server/discover", append(params, '}'), nil)
	if err != nil {
		return Hello{}, err
	}
	var out [5][]byte
	if err := rawjson.Fields(result, []string{"supportedVersions", "capabilities", "instructions", "_meta", "serverInfo"}, out[:]); err != nil {
		return Hello{}, Errorf(KindUpstreamProtocol, "the server's discover result cannot be read: %v", err)
	}
	if version = choose(out[0], true); version == "" {
		return Hello{}, Errorf(KindUnsupportedVersion, "the server speaks %.200s, none of which is a version of the modern era that weir speaks", out[0])
	}
	info := rawjson.Get(out[3], MetaServerInfo)
	if info == nil {
		info = out[4]
	}
	h.setVersion(version)
	return Hello{
		Version: version, Modern: true, Raw: result, Capabilities: out[1], ServerInfo: info, Instructions: rawjson.Text(out[2]),
	}, nil
}

// ModernMeta returns the _meta object that a request of the modern era bears.
func ModernMeta(version string, clientInfo, capabilities json.RawMessage) json.RawMessage {
	out := make([]byte, 0, len(clientInfo)+len(capabilities)+160)
	out = rawjson.AppendString(append(out, '{'), MetaVersion)
	out = rawjson.AppendString(append(out, ':'), version)
	out = rawjson.AppendString(append(out, ','), MetaClientInfo)
	out = append(append(out, ':'), clientInfo...)
	out = rawjson.AppendString(append(out, ','), MetaClientCapabilities)
	out = append(append(out, ':'), capabilities...)
	return append(out, '}')
}
