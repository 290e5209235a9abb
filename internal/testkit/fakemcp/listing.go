package fakemcp

import (
	"fmt"
	"strconv"
)

// listing is the answer to tools/list, prepared as bytes.
type listing struct {
	further int      // how many tools tool_0000, … there are
	pages   [][]byte // "tools":[…] and, where a page follows, ,"nextCursor":"…"
}

func newListing(cfg Config, further int) *listing {
	var definitions []string
	if !cfg.Bare {
		for _, t := range builtin() {
			definitions = append(definitions, t.definition())
		}
	}
	if cfg.Broken {
		definitions = append(definitions, brokenDefinitions()...)
	}
	for i := range further {
		definitions = append(definitions, fmt.Sprintf(`{"name":"tool_%04d","description":"Echo number %d: returns its text.","inputSchema":%s,`+
			`"annotations":{"readOnlyHint":true}}`, i, i, echoSchema))
	}
	l := &listing{further: further}
	for page := range cfg.Pages {
		from, to := len(definitions)*page/cfg.Pages, len(definitions)*(page+1)/cfg.Pages
		b := []byte(`"tools":[`)
		for i, d := range definitions[from:to] {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, d...)
		}
		b = append(b, ']')
		if page+1 < cfg.Pages {
			b = fmt.Appendf(b, `,"nextCursor":"page-%d"`, page+1)
		}
		l.pages = append(l.pages, b)
	}
	return l
}

// brokenDefinitions are tools whose definition breaks the specification, each in one way.
func brokenDefinitions() []string {
	var definitions []string
	for _, b := range []struct{ name, rest string }{
		{"broken_missing", ``},
		{"broken_null", `,"inputSchema":null`},
		{"broken_string", `,"inputSchema":"object"`},
		{"broken_array", `,"inputSchema":[{"type":"object"}]`},
		{"broken_not_an_object", `,"inputSchema":{"type":"array","items":{"type":"string"}}`},
		{"broken_type", `,"inputSchema":{"type":"object","properties":{"text":{"type":"strnig"}}}`},
		{"broken_type_number", `,"inputSchema":{"type":7}`},
		{"broken_properties", `,"inputSchema":{"type":"object","properties":["text"]}`},
		{"broken_required", `,"inputSchema":{"type":"object","required":"text"}`},
		{"broken_pattern", `,"inputSchema":{"type":"object","properties":{"text":{"type":"string","pattern":"("}}}`},
		{"broken_remote_ref", `,"inputSchema":{"type":"object","properties":{"text":{"$ref":"http://127.0.0.1:9/schema.json"}}}`},
		{"broken_dangling_ref", `,"inputSchema":{"type":"object","properties":{"text":{"$ref":"#/$defs/nothing"}}}`},
		{"broken_description", `,"description":42,"inputSchema":` + echoSchema},
	} {
		definitions = append(definitions, `{"name":"`+b.name+`"`+b.rest+`}`)
	}
	return definitions
}

// list answers tools/list.
func (s *Server) list(c *call, dst []byte) ([]byte, *rpcError) {
	l := s.listing.Load()
	page := 0
	if c.cursor != nil {
		const prefix = "page-"
		cursor := string(unquote(c.cursor))
		n, err := strconv.Atoi(cursor[min(len(prefix), len(cursor)):])
		if err != nil || n < 1 || n >= len(l.pages) {
			return dst, &rpcError{code: codeInvalidParams, message: "unknown cursor " + string(c.cursor)}
		}
		page = n
	}
	dst = append(dst, l.pages[page]...)
	if c.modern() {
		dst = append(dst, `,"ttlMs":0,"cacheScope":"public"`...)
	}
	return dst, nil
}

// setTools changes the number of further tools and notifies subscribers.
func (s *Server) setTools(n int) {
	s.listing.Store(newListing(s.cfg, n))
	s.announce()
}
