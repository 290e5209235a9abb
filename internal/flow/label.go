package flow

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of a label. A session's document with the largest label has less than 2 KB.
const (
	maxNames   = 16 // of confidentiality
	maxSources = 8
	maxTool    = 64 // characters of the name of a source
	maxHead    = 56 // characters of the beginning of a text
)

// allNames stands for more names of confidentiality than a label holds. No sink lists it.
const allNames = "*"

// Label says how far a result can be trusted, and who may see it. The zero value is the label of weir's own texts:
// trusted and public. A Label is a value: its lists never change.
type Label struct {
	Untrusted       bool     `json:"u,omitempty"`
	Confidentiality []string `json:"c,omitempty"` // sorted; none: public
	Sources         []string `json:"s,omitempty"` // ids of the tools, resources and prompts that it comes from
}

// Zero reports whether the label says nothing.
func (l Label) Zero() bool {
	return !l.Untrusted && len(l.Confidentiality) == 0 && len(l.Sources) == 0
}

// Join returns the label of a text that is made of texts with both labels.
func (l Label) Join(m Label) Label {
	switch {
	case m.Zero():
		return l
	case l.Zero():
		return m
	}
	return Label{l.Untrusted || m.Untrusted, names(l.Confidentiality, m.Confidentiality), sources(l.Sources, m.Sources)}
}

func names(a, b []string) []string {
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxNames {
		return []string{allNames}
	}
	return all
}

func sources(a, b []string) []string {
	out := a
	for _, s := range b {
		if !slices.Contains(out, s) && len(out) < maxSources {
			out = append(slices.Clip(out), s)
		}
	}
	return out
}

// source returns the sources as one name.
func (l Label) source() string {
	if len(l.Sources) == 1 {
		return l.Sources[0]
	}
	return text.Cut(strings.Join(l.Sources, ", "), maxTool)
}

// within reports whether a label adds nothing to another one.
func (l Label) within(m Label) bool {
	if l.Untrusted && !m.Untrusted {
		return false
	}
	for _, name := range l.Confidentiality {
		if !slices.Contains(m.Confidentiality, name) && !slices.Contains(m.Confidentiality, allNames) {
			return false
		}
	}
	return true
}

// Mark returns the form of the label that lies with a kept result. It is the same for results of the same tool.
func (l Label) Mark() string {
	if l.Zero() {
		return ""
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return "" // which reads as untrusted
	}
	return string(raw)
}

// unknown is the label of a result whose mark is missing.
var unknown = Label{Untrusted: true, Sources: []string{"a result without a label"}}

// Marked returns the label of a mark. If there is none that can be read, the result is untrusted.
func Marked(mark string) Label {
	var l Label
	if mark == "" || json.Unmarshal([]byte(mark), &l) != nil {
		return unknown
	}
	return l
}

// Names returns the label as the audit log has it.
func (l Label) Names() (out []string) {
	if l.Untrusted {
		out = append(out, "untrusted")
	}
	for _, name := range l.Confidentiality {
		out = append(out, "confidential:"+name)
	}
	return out
}

// Integrity returns "trusted" or "untrusted".
func (l Label) Integrity() string {
	if l.Untrusted {
		return mcpserver.Untrusted
	}
	return mcpserver.Trusted
}
