package result

import (
	"bytes"
	"encoding/base64"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
)

// The text of a result that was received into a file is unquoted into a file as well: the heap gets
// a small part of it.
func TestTextInFile(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	ctx, scope := memory.WithScope(t.Context())
	defer scope.End()
	want := strings.Repeat("a line with \"quotes\"\n", 1_000_000)
	b := pool.Account("large").NewBuffer(ctx, 1<<30)
	if _, err := b.Write(rawjson.Quote(want)); err != nil {
		t.Fatal(err)
	}
	block, err := b.Block()
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := block.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	quoted = block.Deliver(ctx, quoted)
	if !scope.Ends(quoted) {
		t.Fatal("the message is not in a file")
	}
	make := Maker(func(from []byte, write func(io.Writer) error) ([]byte, error) { return memory.Make(ctx, from, write) })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := make.text(quoted)
	runtime.ReadMemStats(&after)
	if err != nil || string(text) != want {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; !scope.Ends(text) || allocated > uint64(len(want)/4) {
		t.Errorf("%d bytes of text took %d of the heap", len(want), allocated)
	}
	// A half of a surrogate pair is replaced.
	long := strings.Repeat("x", memory.Free)
	if text, err = make.text([]byte(`"\ud83d and \n` + long + `"`)); err != nil || string(text) != "\uFFFD and \n"+long {
		t.Errorf("%.20q, %v", text, err)
	}
	scope.End()
	if u := pool.Usage(); u.Memory != 0 || u.Disk != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// TestShapeInFile: the parts of a result that are not held back are not copied on the heap.
func TestShapeInFile(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	long := strings.Repeat("words ", 1<<20)
	for name, test := range map[string]struct{ raw, want string }{
		"a large structuredContent": {`{"content":[{"type":"text","text":"short"}],"structuredContent":{"a":"` + long + `"},"x":1}`, `"x":1`},
		"a large _meta":             {`{"content":[{"type":"text","text":"short"}],"_meta":{"a":"` + long + `"}}`, long},
		"media":                     {`{"content":[{"type":"text","text":"` + long + `"},{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("QUJD", 1<<20) + `"}]}`, "QUJD"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, scope := memory.WithScope(t.Context())
			defer scope.End()
			scope.Count(pool, "principal ", "ann")
			f := Firewall{ThresholdChars: 1000, MaxMediaBytes: 8 << 20,
				Make: func(from []byte, write func(io.Writer) error) ([]byte, error) { return memory.Make(ctx, from, write) }}
			keep := func(string, string, []byte, *artifact.Digest) (artifact.Artifact, error) {
				return artifact.Artifact{Handle: "art_1"}, nil
			}
			raw := []byte(test.raw)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, _, err := f.Shape(raw, nil, FormatText, keep)
			runtime.ReadMemStats(&after)
			if err != nil || rawjson.Valid(out) != nil || !strings.Contains(string(out), test.want) {
				t.Fatalf("%.300s, %v", out, err)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
				t.Errorf("%d bytes took %d of the heap", len(raw), allocated)
			}
		})
	}
}

// TestCopiesOfDescriptions: a copy that is made to describe a text which is held back is counted, as the text itself.
func TestCopiesOfDescriptions(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	long := strings.Repeat("words ", 2<<20)
	for name, test := range map[string]struct {
		texts []string
		want  string
	}{
		"NaN":              {[]string{`[{"a":NaN,"b":"` + long + `"},{"a":1,"b":"x"}]`}, "1 value was NaN"},
		"NaN in two texts": {[]string{`{"a":NaN,"b":"` + long + `"}`, `{"a":1,"b":"x"}`}, "1 value was NaN"},
		"lines of a Mac":   {[]string{"one\r" + long + "\rthree"}, "3 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, scope := memory.WithScope(t.Context())
			defer scope.End()
			scope.Count(pool, "principal ", "ann")
			allocated := func() uint64 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.TotalAlloc
			}
			depth, counted := 0, uint64(0) // in the account
			f := Firewall{ThresholdChars: 1000, Make: func(from []byte, write func(io.Writer) error) ([]byte, error) {
				before := allocated()
				depth++
				made, err := memory.Make(ctx, from, write)
				if depth--; depth == 0 {
					counted += allocated() - before
				}
				return made, err
			}}
			keep := func(string, string, []byte, *artifact.Digest) (artifact.Artifact, error) {
				return artifact.Artifact{Handle: "art_1"}, nil
			}
			var blocks []string
			for _, text := range test.texts {
				blocks = append(blocks, `{"type":"text","text":`+string(rawjson.Quote(text))+`}`)
			}
			raw := []byte(`{"content":[` + strings.Join(blocks, ",") + `]}`)
			before := allocated()
			out, _, err := f.Shape(raw, nil, FormatText, keep)
			took := allocated() - before - counted
			if err != nil || !strings.Contains(string(out), test.want) {
				t.Fatalf("%.600s, %v", out, err)
			}
			if took > 6<<20 {
				t.Errorf("%d bytes took %d of the heap that are in no account", len(raw), took)
			}
		})
	}
}

// TestHeadOf: the beginning of a text ends between two characters.
func TestHeadOf(t *testing.T) {
	for _, unit := range []string{"x", "é", `\n`, `\\`, `\"`, `\u00e9`, `ab\\\"`} {
		for lead := range 7 {
			raw := `"` + strings.Repeat("-", lead) + strings.Repeat(unit, maxHead) + `"`
			if whole, head := rawjson.Text([]byte(raw)), headOf([]byte(raw)); len(head) < maxHead/8 || !strings.HasPrefix(whole, head) {
				t.Errorf("%q after %d: %d bytes of %d", unit, lead, len(head), len(whole))
			}
		}
	}
}

// TestDecoded: base64 is decoded with padding and without it, also in several pieces and with escapes.
func TestDecoded(t *testing.T) {
	data := []byte(strings.Repeat("any bytes\x00\xff", 20_001))
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		quoted := `"` + strings.ReplaceAll(encoding.EncodeToString(data), "/", `\/`) + `"`
		if got, err := Maker(makeOnHeap).decoded([]byte(quoted)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, want %d: %v", len(got), len(data), err)
		}
	}
	for _, bad := range []string{`"no base64!"`, `"QQ=="QQ"`, `"A"`} {
		if got, err := Maker(makeOnHeap).decoded([]byte(bad)); err == nil {
			t.Errorf("%s is %q", bad, got)
		}
	}
}

// TestLargeSecrets: a large value without its secrets is in a file, as the value itself.
func TestLargeSecrets(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	ctx, scope := memory.WithScope(t.Context())
	defer scope.End()
	scope.Count(pool, "principal ", "ann")
	make := Maker(func(from []byte, write func(io.Writer) error) ([]byte, error) { return memory.Make(ctx, from, write) })
	r := NewRedactor([]string{knownSecret})
	text := strings.Repeat("words with \"quotes\" and "+knownSecret+", über\n", 100_000)
	clean, err := r.LargeText([]byte(text), make)
	if want := strings.ReplaceAll(text, knownSecret, redacted); err != nil || string(clean) != want || !scope.Ends(clean) {
		t.Errorf("%d bytes of text, want %d: %v", len(clean), len(want), err)
	}
	raw := []byte(`{"a":` + quote(text) + `,"password":"letmein-please","b":[` + quote(knownSecret) + `,1]}`)
	clean, err = r.LargeResults(raw, make)
	want := `{"a":` + quote(strings.ReplaceAll(text, knownSecret, redacted)) + `,"password":"[redacted]","b":["[redacted]",1]}`
	if err != nil || string(clean) != want || !scope.Ends(clean) {
		t.Errorf("%d bytes of JSON, want %d: %v", len(clean), len(want), err)
	}
	scope.End()
	if u := pool.Usage(); u.Memory != 0 || u.Disk != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

func quote(text string) string { return string(rawjson.Quote(text)) }

// TestRedactOverlap: secrets that overlap are one, and hostile texts take time in proportion to their length.
func TestRedactOverlap(t *testing.T) {
	r := NewRedactor([]string{knownSecret})
	for in, want := range map[string]string{
		"https://ann:" + knownSecret + "@host":           "https://[redacted]@host",
		"Bearer " + knownSecret + knownSecret + ", more": "Bearer [redacted], more",
		knownSecret + knownSecret:                        "[redacted][redacted]",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	began := time.Now()
	for _, piece := range []string{"B", "eyJ-", "eyJ-ghp_0123456789abcdefghij-", "://a:", "-----BEGIN PRIVATE KEY-----"} {
		r.Text(strings.Repeat(piece, 2<<20/len(piece)))
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
