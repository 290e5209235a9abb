package mcp

import (
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Params holds the members of params that most handlers read, as slices of the params.
// [Request.Fields] finds them in one pass for all handlers of a request. A member is nil if it is
// absent or a duplicate, or if params are not a valid object.
type Params struct {
	Name, URI, Arguments, RequestState json.RawMessage
	// RawMeta is the member _meta; Meta reads it.
	RawMeta json.RawMessage

	raw    json.RawMessage // the params that were scanned
	twice  [len(paramKeys)]bool
	others bool  // there are members without a field in Params
	err    error // set if params are not a valid object

	metaRead bool // meta and metaErr are set
	meta     Meta
	metaErr  error
}

// paramKeys are the keys of Params, in the order of Params.members.
var paramKeys = [...]string{"name", "uri", "arguments", "requestState", "_meta"}

func (p *Params) members() [len(paramKeys)]*json.RawMessage {
	return [...]*json.RawMessage{&p.Name, &p.URI, &p.Arguments, &p.RequestState, &p.RawMeta}
}

// readParams finds the members of raw in one pass. Handlers that have a Request call its Fields.
func readParams(raw json.RawMessage) Params {
	p := Params{raw: raw}
	if len(raw) == 0 {
		return p
	}
	members := p.members()
	p.err = rawjson.EachMember(raw, func(m rawjson.Member) bool {
		for n, key := range paramKeys {
			if string(m.Key) == key {
				p.twice[n] = p.twice[n] || *members[n] != nil
				*members[n] = m.Value
				return true
			}
		}
		p.others = true
		return true
	})
	for n, twice := range p.twice {
		if twice || p.err != nil {
			*members[n] = nil // a duplicate: a reader must not pick one of the two
		}
	}
	return p
}

// Unique returns an error if one of keys is a duplicate or params are not a valid object. Keys are
// "name", "uri", "arguments", "requestState" and "_meta"; others are ignored.
func (p *Params) Unique(keys ...string) error {
	if p.err != nil {
		return p.err
	}
	for _, key := range keys {
		for n, known := range paramKeys {
			if known == key && p.twice[n] {
				return fmt.Errorf("%w %q", rawjson.ErrDuplicate, known)
			}
		}
	}
	return nil
}

// Plain reports whether params have no members but name, arguments and _meta, each at most once.
func (p *Params) Plain() bool {
	return p.err == nil && !p.others && p.twice == [len(paramKeys)]bool{} && p.URI == nil && p.RequestState == nil
}

// Meta reads RawMeta, once. Absent parts stay zero. If _meta or one of the keys of Meta is a
// duplicate, the error is of KindInvalidParams.
func (p *Params) Meta() (Meta, error) {
	if !p.metaRead {
		p.metaRead = true
		p.meta, p.metaErr = p.parseMeta()
	}
	return p.meta, p.metaErr
}

func (p *Params) parseMeta() (Meta, error) {
	if !rawjson.IsObject(p.raw) {
		return Meta{}, nil
	}
	if err := p.Unique("_meta"); err != nil {
		return Meta{}, Errorf(KindInvalidParams, "params: %v", err)
	}
	if p.RawMeta == nil || string(p.RawMeta) == "null" {
		return Meta{}, nil
	}
	var version, info, capabilities, level, token []byte
	err := rawjson.Scan(p.RawMeta, rawjson.Key(MetaVersion, &version), rawjson.Key(MetaClientInfo, &info),
		rawjson.Key(MetaClientCapabilities, &capabilities), rawjson.Key(MetaLogLevel, &level), rawjson.Key("progressToken", &token))
	if err != nil {
		return Meta{}, Errorf(KindInvalidParams, "params._meta: %v", err)
	}
	return Meta{Version: oneOf(Versions, version), ClientInfo: info, ClientCapabilities: capabilities, LogLevel: oneOf(logLevels, level), ProgressToken: token}, nil
}

// oneOf returns the text of a JSON string, without an allocation if it is one of texts.
func oneOf(texts []string, raw []byte) string {
	for _, t := range texts {
		if len(raw) == len(t)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == t {
			return t
		}
	}
	return rawjson.Text(raw)
}

// of reports whether p was read from raw, the same bytes in memory.
func (p *Params) of(raw json.RawMessage) bool {
	return len(p.raw) == len(raw) && (len(raw) == 0 || &p.raw[0] == &raw[0])
}

// Fields returns the commonly read members of r.Params. Only the first call scans the params;
// copies of r share the result. If a copy gets other Params, they are scanned again. The first call
// must not run concurrently with another one for the same r.
func (r *Request) Fields() *Params {
	if !r.fields.of(r.Params) {
		r.fields = readParams(r.Params)
	}
	return &r.fields
}
