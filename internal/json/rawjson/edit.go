package rawjson

import (
	"fmt"
	"io"
)

// Change is a change of one member of an object.
type Change struct {
	Key string
	// Value is the new value, in parts that follow each other; nil removes the member.
	Value Parts
}

// Parts are bytes that follow each other.
type Parts [][]byte

// WriteParts writes the parts to w, whose method Grow hears of their length first, if it has one.
func (p Parts) WriteParts(w io.Writer) error {
	if g, ok := w.(interface{ Grow(n int) }); ok {
		g.Grow(p.Len())
	}
	for _, part := range p {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Len returns the number of bytes.
func (p Parts) Len() (n int) {
	for _, part := range p {
		n += len(part)
	}
	return n
}

// Edit returns an object with several members changed, as Set and Delete change one, and copies nothing: the parts
// are slices of obj and of the values. A member that is not there is added at the end.
func Edit(obj []byte, changes ...Change) (Parts, error) {
	var out Parts
	done := make([]bool, len(changes))
	end, kept := SkipSpace(obj, 0)+1, 0
	var twice string
	err := EachMember(obj, func(m Member) bool {
		before := obj[end:m.Start]
		if kept == 0 {
			before = obj[:m.Start]
			if end > SkipSpace(obj, 0)+1 { // members before it are removed
				before = obj[:SkipSpace(obj, 0)+1]
			}
		}
		end = m.End
		for i, c := range changes {
			if string(m.Key) != c.Key {
				continue
			}
			if done[i] {
				twice = c.Key
				return false
			}
			if done[i] = true; c.Value != nil {
				out = append(append(out, before, obj[m.Start:m.End-len(m.Value)]), c.Value...)
				kept++
			}
			return true
		}
		out = append(out, before, obj[m.Start:m.End])
		kept++
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case twice != "":
		return nil, fmt.Errorf("%w %q", ErrDuplicate, twice)
	}
	if kept == 0 {
		out = append(out, obj[:SkipSpace(obj, 0)+1])
	}
	for i, c := range changes {
		if done[i] || c.Value == nil {
			continue
		}
		key := append(AppendString(nil, c.Key), ':')
		if kept > 0 {
			key = append([]byte{','}, key...)
		}
		out = append(append(out, key), c.Value...)
		kept++
	}
	return append(out, obj[end:]), nil
}
