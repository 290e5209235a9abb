package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// ErrNotSent is the cause of an error of Call or Notify whose message certainly never reached the
// other side. So the same call may be made again on another connection. The absence of ErrNotSent
// proves nothing.
var ErrNotSent = errors.New("the message never reached the other side")

// ErrFinal is the cause of an error that a retry cannot avoid: the same message would fail again,
// or the other side has accepted it and must not get it twice.
var ErrFinal = errors.New("the same message would fail again")

// ErrAnswered is the cause of an error of Call for a request that the other side has answered, where
// the answer cannot be used: the request has run, and the same call runs it again.
var ErrAnswered = errors.New("the other side has answered")

// Answered returns err with ErrAnswered as a further cause.
func Answered(err error) error { return answered{err} }

type answered struct{ error }

func (a answered) Unwrap() error        { return a.error }
func (a answered) Is(target error) bool { return target == ErrAnswered }

// ErrLoop is the cause of an error for another side that is this process, or that would start this
// process again.
var ErrLoop = errors.New("the other side is the one that asks")

// ErrRefused is the cause of an error for another side that is reachable but does not accept this
// message at all (an HTTP status such as 404 or 405 without a JSON-RPC answer). Handshake then
// tries the other era, and the caller may try another transport.
var ErrRefused = errors.New("the other side does not take this message")

// probeTimeout bounds a request that only detects the era of a server. A server of the other era
// may never answer it.
const probeTimeout = 5 * time.Second

// Hello is the server's part of the handshake.
type Hello struct {
	// Version is the protocol version that governs the connection.
	Version string
	// Modern says that Version belongs to the modern era: there is no session, and every request
	// repeats the client's part of the handshake.
	Modern bool
	// ServerInfo and Capabilities are raw objects, nil if the server gave none.
	ServerInfo, Capabilities json.RawMessage
	// Instructions are for the model; may be empty.
	Instructions string
	// Raw is the whole result of initialize or server/discover.
	Raw json.RawMessage
}

// Handshake introduces weir to the server behind p and returns the server's answer. clientInfo and
// capabilities are raw objects; nil capabilities mean {}.
//
// version is the first version to try. With "" or a legacy version Handshake sends initialize
// first; with a modern version it sends server/discover first. If the server refuses that, or does
// not answer a mere probe within probeTimeout, Handshake sends the other:
//
//	initialize ──result──▶ notifications/initialized ──▶ legacy
//	    └──error──▶ server/discover ──result──▶ modern
//	                     └──error──▶ the error of initialize
//
// If a refusal lists versions, Handshake tries one of these. If p has a method Session() *Session,
// Handshake sets the negotiated version there before the server learns that the handshake is
// complete. If the server speaks no version that weir speaks, the error is of
// KindUnsupportedVersion.
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
	hello, probeErr := h.probe(ctx, V20260728)
	if k, _ := KindOf(probeErr); probeErr == nil || k == KindUnauthorized {
		return hello, probeErr // it speaks this era, to callers that it knows
	}
	return Hello{}, err
}

type handshake struct {
	peer               Peer
	info, capabilities json.RawMessage
	probed             bool // the modern era has been tried
}

// goOn reports whether the server may speak the other era despite err.
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

// offered returns the newest version of the given era that err, a refusal, lists and weir speaks.
// It returns "" if there is none.
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
	params := rawjson.NewWriter(nil).Object().Key("protocolVersion").String(version)
	params.Key("capabilities").Raw(h.capabilities).Key("clientInfo").Raw(h.info).EndObject()
	result, err := h.peer.Call(ctx, "initialize", params.Bytes(), nil)
	if err != nil {
		return Hello{}, err
	}
	var governing, capabilities, info, instructions []byte
	if err := rawjson.Scan(result, rawjson.Key("protocolVersion", &governing), rawjson.Key("capabilities", &capabilities),
		rawjson.Key("serverInfo", &info), rawjson.Key("instructions", &instructions)); err != nil {
		return Hello{}, Errorf(KindUpstreamProtocol, "the server's initialize result cannot be read: %v", err)
	}
	answered := rawjson.Text(governing)
	if !Supported(answered) || IsModern(answered) {
		return Hello{}, UnsupportedVersion(answered)
	}
	h.setVersion(answered)
	if err := h.peer.Notify(ctx, "notifications/initialized", nil); err != nil {
		return Hello{}, err
	}
	return Hello{
		Version: answered, Raw: result, Capabilities: capabilities, ServerInfo: info, Instructions: rawjson.Text(instructions),
	}, nil
}

// setVersion sets the protocol version of the connection.
func (h *handshake) setVersion(version string) {
	if c, ok := h.peer.(interface{ Session() *Session }); ok {
		c.Session().SetVersion(version)
	}
}

// probe sends server/discover. If the server refuses the version, probe tries one that the server
// lists.
func (h *handshake) probe(ctx context.Context, version string) (Hello, error) {
	h.probed = true
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	hello, err := h.discover(ctx, version)
	if other := h.offered(err, true); other != "" && other != version {
		hello, err = h.discover(ctx, other)
	}
	return hello, err
}

func (h *handshake) discover(ctx context.Context, version string) (Hello, error) {
	params := rawjson.Object("_meta", ModernMeta(version, h.info, h.capabilities))
	result, err := h.peer.Call(ctx, "server/discover", params, nil)
	if err != nil {
		return Hello{}, err
	}
	var supported, capabilities, instructions, meta, own []byte
	if err := rawjson.Scan(result, rawjson.Key("supportedVersions", &supported), rawjson.Key("capabilities", &capabilities),
		rawjson.Key("instructions", &instructions), rawjson.Key("_meta", &meta), rawjson.Key("serverInfo", &own)); err != nil {
		return Hello{}, Errorf(KindUpstreamProtocol, "the server's discover result cannot be read: %v", err)
	}
	if version = choose(supported, true); version == "" {
		return Hello{}, Errorf(KindUnsupportedVersion, "the server speaks %.200s, none of which is a version of the modern era that weir speaks", supported)
	}
	info := rawjson.Get(meta, metaServerInfo)
	if info == nil {
		info = own
	}
	h.setVersion(version)
	return Hello{
		Version: version, Modern: true, Raw: result, Capabilities: capabilities, ServerInfo: info, Instructions: rawjson.Text(instructions),
	}, nil
}

// ModernMeta returns the _meta object of a modern request.
func ModernMeta(version string, clientInfo, capabilities json.RawMessage) json.RawMessage {
	w := rawjson.NewWriter(make([]byte, 0, len(clientInfo)+len(capabilities)+160))
	w.Object().Key(MetaVersion).String(version)
	w.Key(MetaClientInfo).Raw(clientInfo).Key(MetaClientCapabilities).Raw(capabilities)
	return w.EndObject().Bytes()
}
