package result

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Screen removes text that people do not see from what servers answer, ask and tell, or withholds
// answers with such text. The zero value lets all pass and reads nothing.
type Screen uint8

// What a Screen does.
const (
	ScreenOff    Screen = iota
	ScreenStrip         // such text is removed
	ScreenRefuse        // an answer with text that can carry hidden words fails
)

// carries are the kinds of invisible text that can carry words. Control characters and fillers are in
// the output of many programs and in many web pages: they are removed, and refuse no answer.
const carries = visible.Tags | visible.Bidi | visible.ZeroWidth | visible.Variations

// Peer returns a peer whose answers, errors, questions and notifications pass the Screen.
func (s Screen) Peer(p mcp.Peer) mcp.Peer {
	if s == ScreenOff {
		return p
	}
	return screenedPeer{p, s}
}

type screenedPeer struct {
	mcp.Peer
	screen Screen
}

// Call implements mcp.Peer.
func (p screenedPeer) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if back != nil {
		back = p.screen.Back(back)
	}
	answer, err := p.Peer.Call(ctx, method, params, back)
	if err != nil {
		return nil, p.screen.Error(err)
	}
	return p.screen.Answer(answer)
}

// Back returns a handler for what a server asks and tells during a call. Hidden text is removed from
// it; nothing is refused, because the server waits.
func (s Screen) Back(next mcp.Handler) mcp.Handler {
	if s == ScreenOff {
		return next
	}
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		params, err := s.Params(r.Params)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(params, r.Params) {
			seen := *r
			seen.Params = params
			r = &seen
		}
		return next.Serve(ctx, r)
	})
}

// Params removes hidden text from the params of what a server asks or tells.
func (s Screen) Params(params json.RawMessage) (json.RawMessage, error) {
	if s == ScreenOff {
		return params, nil
	}
	out, _, err := seen(params)
	return out, err
}

// Answer returns a result without hidden text, or the error that withholds it. It returns the bytes
// of raw if there is nothing to remove.
func (s Screen) Answer(raw json.RawMessage) (json.RawMessage, error) {
	if s == ScreenOff {
		return raw, nil
	}
	out, kinds, err := seen(raw)
	if err == nil && s == ScreenRefuse && kinds&carries != 0 {
		err = mcp.Errorf(mcp.KindPermissionDenied, "the answer of the server has text that people do not see (%s), and guards.unicode: refuse withholds it; the request itself was served. The operator can set guards.unicode: strip", kinds&carries)
	}
	if err != nil {
		return nil, mcp.Answered(err)
	}
	return out, nil
}

// Error returns an error of a server without hidden text.
func (s Screen) Error(err error) error {
	var answered *jsonrpc.Error
	if s == ScreenOff || !errors.As(err, &answered) {
		return err
	}
	message := answered.Message
	if visible.Find(message) != 0 {
		message = visible.Text(message)
	}
	data, _, failed := seen(answered.Data)
	if failed != nil {
		data = nil
	}
	if message == answered.Message && bytes.Equal(data, answered.Data) {
		return err
	}
	return &jsonrpc.Error{Code: answered.Code, Message: message, Data: data}
}

// view removes hidden text from a view. Nothing is refused: the request was served before.
func (s Screen) view(v View) View {
	if s != ScreenOff {
		v.Text, v.Notice = visible.Text(v.Text), visible.Text(v.Notice)
	}
	return v
}

// viewError removes hidden text from the message of a failed view, which may name headings and columns.
func (s Screen) viewError(err error) error {
	failed, ok := errors.AsType[*Error](err)
	if s == ScreenOff || !ok || visible.Find(failed.Message) == 0 {
		return err
	}
	clean := *failed
	clean.Message = visible.Text(failed.Message)
	return &clean
}

// seen removes hidden text from the strings and keys of a JSON text, and returns its kinds. It returns
// raw itself if there is none: strings without hidden text keep their bytes. It fails if two keys of
// an object are one then.
func seen(raw []byte) (out []byte, kinds visible.Kinds, err error) {
	if !mayHide(raw) {
		return raw, 0, nil
	}
	all := string(raw)
	if !suspects(all) {
		return raw, 0, nil
	}
	done, keys := 0, false
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			break // what reads the answer reports it
		}
		i = end
		text := all[start+1 : end-1]
		if !suspects(text) {
			continue
		}
		if strings.IndexByte(text, '\\') >= 0 {
			text = rawjson.Text(raw[start:end])
		}
		found := visible.Find(text)
		if found == 0 {
			continue
		}
		kinds |= found
		out = rawjson.AppendString(append(out, raw[done:start]...), visible.Text(text))
		done = end
		if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
			keys = true
		}
	}
	if done == 0 {
		return raw, 0, nil
	}
	out = append(out, raw[done:]...)
	if keys {
		if _, err := rawjson.AppendRewritten(nil, out); err != nil {
			return nil, kinds, mcp.Errorf(mcp.KindUpstreamProtocol, "the answer of the server has keys that differ in text that people do not see alone (guards.unicode): %w", err)
		}
	}
	return out, kinds, nil
}

// suspects reports whether a JSON text, or the inside of a JSON string, has characters that can be
// invisible, as they are or as escapes.
func suspects(s string) bool {
	if visible.Suspects(s) {
		return true
	}
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return false
		}
		switch s[i+1] {
		case 'b':
			return true
		case 'u':
			if i+6 > len(s) {
				return true
			}
			c, err := strconv.ParseUint(s[i+2:i+6], 16, 32)
			if err != nil || c >= 0xd800 && c < 0xe000 || visible.SuspectsRune(rune(c)) {
				return true
			}
			i += 4
		}
		s = s[i+2:]
	}
}

// mayHide reports whether a JSON text may have invisible characters. It costs a fraction of a scan of
// the strings, and it is false for most answers.
func mayHide(raw []byte) bool {
	const most = 0x8080808080808080
	i := 0
	for ; i+8 <= len(raw); i += 8 {
		if binary.LittleEndian.Uint64(raw[i:])&most != 0 {
			return true
		}
	}
	for _, c := range raw[i:] {
		if c >= 0x80 {
			return true
		}
	}
	return bytes.IndexByte(raw, 0x7f) >= 0 || bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte(`\b`))
}
