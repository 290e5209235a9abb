package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// arguments returns the form of arguments where nothing is counted.
func arguments(t *testing.T, k Keys, form Form, args []byte, redact func([]byte) []byte) []byte {
	t.Helper()
	out, err := k.Arguments(t.Context(), form, args, redact)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The copies of large arguments are counted while the form is made. Without room the caller is told, and there is the
// digest that needs no copy.
func TestArgumentsAreCounted(t *testing.T) {
	k, err := KeysFrom("a text of enough characters")
	if err != nil {
		t.Fatal(err)
	}
	pool := memory.NewPool(memory.Options{Limit: 64 << 20, Wait: time.Millisecond})
	count := func(limit *memory.Pool) (context.Context, *memory.Scope) {
		ctx, s := memory.WithScope(t.Context())
		s.Count(limit, "principal ", "ann")
		return ctx, s
	}
	var members strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&members, `"member%d":[],`, i)
	}
	args := []byte(`{` + members.String() + `"text":"` + strings.Repeat("x", 1<<20) + `"}`)
	for _, form := range []Form{FormHash, FormRedacted, FormFull} {
		held := int64(0)
		redact := func(b []byte) []byte {
			held = pool.Usage().Memory
			return bytes.Clone(b)
		}
		ctx, s := count(pool)
		out, err := k.Arguments(ctx, form, args, redact)
		if err != nil || !bytes.Equal(out, arguments(t, k, form, args, bytes.Clone)) {
			t.Errorf("%s: %.80s, %v", form, out, err)
		}
		if form == FormRedacted && held < 3*int64(len(args)) {
			t.Errorf("%d bytes are held for arguments of %d bytes", held, len(args))
		}
		s.End()
		full, s := count(memory.NewPool(memory.Options{Limit: 1 << 20, Wait: time.Millisecond}))
		var why *memory.Error
		if out, err := k.Arguments(full, form, args, redact); !errors.As(err, &why) {
			t.Errorf("%s without room: %.80s, %v", form, out, err)
		}
		s.End()
	}
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("afterwards %+v", u)
	}
	if got := string(k.Unread(args)); got != `"`+k.Digest(args)+`"` {
		t.Errorf("without copies: %s", got)
	}
}
