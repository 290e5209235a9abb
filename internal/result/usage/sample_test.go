package usage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/token"
)

// largeTexts are texts of about 40 KB, of kinds that tools return.
func largeTexts() map[string]string {
	var prose, rows, log, mixed strings.Builder
	words := strings.Fields("a river carries more water in spring than the old weir was built for, so its gates are opened early")
	for i := range 8_000 {
		prose.WriteString(words[i*i%len(words)])
		prose.WriteByte(" \n"[min(1, max(0, i%97-95))])
	}
	for i := range 1100 {
		fmt.Fprintf(&rows, `{"id":%d,"name":"row \"%d\"","path":"C:\\data\\%d"},`, i, i, i)
		fmt.Fprintf(&log, "2026-01-02T03:04:%02d.%03dZ ERROR worker %d: no route to host 10.0.%d.%d\n", i%60, i%1000, i, i%250, i%241)
	}
	for i := range 60 {
		mixed.WriteString(prose.String()[i*100 : i*100+400])
		mixed.WriteString(rows.String()[i*100 : i*100+400])
		mixed.WriteString(strings.Repeat("水は堰を越えて流れる。", 20))
	}
	blob := make([]byte, 40_000)
	for i := range blob {
		blob[i] = byte(i * i * 31 >> 3)
	}
	return map[string]string{
		"prose": prose.String(), "rows": rows.String(), "log": log.String(), "mixed": mixed.String(),
		"base64": base64.StdEncoding.EncodeToString(blob), "one letter": strings.Repeat("x", 40_000),
		"not ASCII": strings.Repeat("水は堰を越えて流れる。", 1_600),
	}
}

func asResult(quote func(string) []byte, texts ...string) json.RawMessage {
	out := []byte(`{"content":[`)
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, `{"type":"text","text":`...), quote(text)...), '}')
	}
	return append(out, `]}`...)
}

// escaped writes each character as an escape, as some servers do with those that are not ASCII.
func escaped(text string) []byte {
	out := []byte{'"'}
	for _, r := range text {
		out = fmt.Appendf(out, `\u%04x`, r)
	}
	return append(out, '"')
}

// The tokens of these large results are estimated within five percent. Of 280 files of a system, half were within 2 %, nine
// of ten within 6 % and all within 11 %: a text whose parts differ is as good as its samples.
func TestEstimate(t *testing.T) {
	for name, text := range largeTexts() {
		exact := token.Count(text)
		for form, raw := range map[string]json.RawMessage{
			"one block":   asResult(rawjson.Quote, text),
			"escaped":     asResult(escaped, text),
			"many blocks": asResult(rawjson.Quote, strings.SplitAfter(strings.ToValidUTF8(text[:39_000], ""), " ")...),
			"structured":  append(append([]byte(`{"structuredContent":`), rawjson.Quote(text)...), '}'),
		} {
			want := exact
			switch form {
			case "many blocks":
				want = 0
				for _, part := range strings.SplitAfter(strings.ToValidUTF8(text[:39_000], ""), " ") {
					want += token.Count(part)
				}
			case "structured":
				want = token.Count(string(rawjson.Quote(text)))
			}
			got, isExact := TextsOf(raw).Count(token.Count)
			if off := math.Abs(float64(got-want)) / float64(want); isExact || off > 0.05 {
				t.Errorf("%s, %s: %d tokens, estimated %d: %.1f %% off", name, form, want, got, 100*off)
			}
		}
	}
}

// An estimate of any result counts about as many bytes.
func TestEstimateIsBounded(t *testing.T) {
	text := largeTexts()["prose"]
	for _, raw := range []json.RawMessage{asResult(rawjson.Quote, strings.Repeat(text, 20)), asResult(rawjson.Quote, strings.Fields(text)...)} {
		counted := 0
		if _, exact := TextsOf(raw).Count(func(s string) int { counted += len(s); return 1 }); exact || counted > 20<<10 {
			t.Errorf("%d bytes are counted, exact: %t", counted, exact)
		}
	}
}

// A result up to the bound is counted exactly.
func TestExactUpToTheBound(t *testing.T) {
	text := largeTexts()["mixed"]
	for _, n := range []int{0, 100, MaxExact / 2} {
		part := strings.ToValidUTF8(text[:n], "")
		got, exact := TextsOf(asResult(rawjson.Quote, part)).Count(token.Count)
		if !exact || got != token.Count(part) {
			t.Errorf("%d bytes: %d tokens, exact: %t; want %d", n, got, exact, token.Count(part))
		}
	}
}
