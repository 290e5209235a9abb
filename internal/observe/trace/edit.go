package trace

import "github.com/weir-mcp/weir/internal/json/rawjson"

// Edit replaces the bytes from At to End of a message by Text, so that a message of any size is sent
// with the context of its span and without a copy. The zero Edit changes nothing.
type Edit struct {
	At, End int
	Text    []byte
}

// Grows returns by how many bytes the message grows.
func (e Edit) Grows() int { return len(e.Text) - (e.End - e.At) }

// Append appends the edited message to dst.
func (e Edit) Append(dst, message []byte) []byte {
	dst = append(append(dst, message[:e.At]...), e.Text...)
	return append(dst, message[e.End:]...)
}

// edit puts the context of the span into params._meta of a message. It is zero if that is no object,
// occurs twice or has more than maxLook bytes.
func (s *span) edit(message []byte) Edit {
	params, ok := slotOf(message, "params")
	if !ok {
		return Edit{}
	}
	if params.value == nil {
		return s.fill(params, nil, `"params":{"_meta":`, "}")
	}
	meta, ok := slotOf(params.value, "_meta")
	if !ok {
		return Edit{}
	}
	from := params.end - len(params.value)
	meta.at, meta.end = meta.at+from, meta.end+from
	if meta.value != nil {
		return s.fill(meta, meta.value, "", "")
	}
	return s.fill(meta, nil, `"_meta":`, "")
}

// fill returns the edit that puts meta with the context of the span into a slot.
func (s *span) fill(at slot, meta []byte, before, after string) Edit {
	if len(meta) > maxLook {
		return Edit{}
	}
	out, err := rawjson.Set(meta, "traceparent", rawjson.Quote(s.traceparent()))
	if err == nil && s.state != "" {
		out, err = rawjson.Set(out, "tracestate", rawjson.Quote(s.state))
	}
	if err != nil {
		return Edit{}
	}
	if at.follows {
		before = "," + before
	}
	text := make([]byte, 0, len(before)+len(out)+len(after))
	return Edit{at.at, at.end, append(append(append(text, before...), out...), after...)}
}

// slot is the place of a member's value in an object, or where the member goes.
type slot struct {
	at, end int
	value   []byte // nil: there is none
	follows bool   // the new member comes after another one
}

// slotOf finds a member. ok is false if obj is no object or has the member twice.
func slotOf(obj []byte, key string) (s slot, ok bool) {
	found, members, last := 0, 0, 0
	err := rawjson.EachMember(obj, func(m rawjson.Member) bool {
		members, last = members+1, m.End
		if string(m.Key) == key {
			found++
			s = slot{at: m.End - len(m.Value), end: m.End, value: m.Value}
		}
		return true
	})
	switch {
	case err != nil || found > 1:
		return slot{}, false
	case found == 1:
		return s, true
	case members == 0:
		last = rawjson.SkipSpace(obj, 0) + 1
	}
	return slot{at: last, end: last, follows: members > 0}, true
}
