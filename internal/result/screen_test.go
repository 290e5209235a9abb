package result

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// hiddenTexts are the texts of the corpus of package visible.
func hiddenTexts(t testing.TB) (texts []string) {
	t.Helper()
	raw, err := os.ReadFile("../text/visible/testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		key, value, _ := strings.Cut(line, " ")
		if key != "text" && key != "same" {
			continue
		}
		if value = strings.TrimSpace(value); strings.HasPrefix(value, `"`) {
			if value, err = strconv.Unquote(value); err != nil {
				t.Fatal(err)
			}
		}
		texts = append(texts, value)
	}
	if len(texts) < 100 {
		t.Fatalf("%d texts", len(texts))
	}
	return texts
}

// TestScreenCorpus: strip leaves no hidden text at any place of an answer, and no byte of others changes;
// refuse withholds what carries words, and strips the rest.
func TestScreenCorpus(t *testing.T) {
	for _, text := range hiddenTexts(t) {
		kinds := visible.Find(text)
		for _, form := range []func(any) ([]byte, error){json.Marshal, asASCII} {
			raw, err := form(map[string]any{
				"content":           []any{map[string]any{"type": "text", "text": text}, map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x", "text": "x " + text + " y"}}},
				"structuredContent": map[string]any{"rows": []any{[]any{1, text}}, "key " + text: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ScreenOff.Answer(raw); err != nil || string(got) != string(raw) {
				t.Fatalf("off: %s, %v", got, err)
			}
			got, err := ScreenStrip.Answer(raw)
			if err != nil {
				t.Fatalf("%+q: %v", text, err)
			}
			if _, left, err := seen(got); left != 0 || err != nil {
				t.Errorf("%+q: %s is left in %s (%v)", text, left, got, err)
			}
			var doc any
			if json.Unmarshal(got, &doc) != nil {
				t.Errorf("%+q became %s", text, got)
			}
			inside := visible.Find("x "+text+" y") | visible.Find("key "+text) | kinds
			if inside == 0 && string(got) != string(raw) {
				t.Errorf("%+q: what is seen changed to %s", text, got)
			}
			withheld, err := ScreenRefuse.Answer(raw)
			if kind, _ := mcp.KindOf(err); (kind == mcp.KindPermissionDenied) != (inside&carries != 0) || err == nil && string(withheld) != string(got) {
				t.Errorf("%+q (%s): %s, %v", text, inside, withheld, err)
			}
		}
	}
}

// asASCII is json.Marshal with escapes for all characters beyond ASCII.
func asASCII(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, r := range string(raw) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			b.WriteString(`\u` + strconv.FormatInt(int64(0xd800+r>>10), 16) + `\u` + strconv.FormatInt(int64(0xdc00+r&0x3ff), 16))
		default:
			hex := strconv.FormatInt(int64(r), 16)
			b.WriteString(`\u` + strings.Repeat("0", 4-len(hex)) + hex)
		}
	}
	return []byte(b.String()), nil
}

// TestScreenKeys: keys that are one without hidden text make an answer that readers take in different
// ways.
func TestScreenKeys(t *testing.T) {
	if got, err := ScreenStrip.Answer(json.RawMessage(`{"structuredContent":{"a":1,"a\u200b":2}}`)); err == nil {
		t.Errorf("%s", got)
	}
	if got, err := ScreenStrip.Answer(json.RawMessage(`{"structuredContent":{"a":1,"b\u202e":2}}`)); err != nil || string(got) != `{"structuredContent":{"a":1,"b":2}}` {
		t.Errorf("%s, %v", got, err)
	}
}

// speaker is a server that asks and tells what its call says, and answers with an error.
type speaker struct{ fails bool }

func (s speaker) Call(ctx context.Context, _ string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if _, err := back.Serve(ctx, &mcp.Request{Method: "sampling/createMessage", Params: params}); err != nil {
		return nil, err
	}
	if s.fails {
		return nil, &jsonrpc.Error{Code: -32000, Message: "bad\u202e", Data: params}
	}
	return params, nil
}

func (speaker) Notify(context.Context, string, json.RawMessage) error { return nil }

// TestScreenOfPeers: what a server asks, its errors and its results.
func TestScreenOfPeers(t *testing.T) {
	const hidden, clean = `{"text":"a\u202e"}`, `{"text":"a"}`
	for _, screen := range []Screen{ScreenOff, ScreenStrip, ScreenRefuse} {
		want := clean
		if screen == ScreenOff {
			want = hidden
		}
		back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			if string(r.Params) != want {
				t.Errorf("%v: asked %s", screen, r.Params)
			}
			return nil, nil
		})
		got, err := screen.Peer(speaker{}).Call(t.Context(), "tools/call", json.RawMessage(hidden), back)
		if (err != nil) != (screen == ScreenRefuse) || err == nil && string(got) != want {
			t.Errorf("%v: %s, %v", screen, got, err)
		}
		_, err = screen.Peer(speaker{fails: true}).Call(t.Context(), "tools/call", json.RawMessage(hidden), back)
		var answered *jsonrpc.Error
		if !errors.As(err, &answered) || string(answered.Data) != want || (answered.Message == "bad") != (screen != ScreenOff) {
			t.Errorf("%v: %v", screen, err)
		}
	}
}

func BenchmarkScreen(b *testing.B) {
	for name, unit := range map[string]string{"ASCII": `{"id":17,"name":"Reads a file and returns its text","ok":true},`, "escapes": `{"text":"caf\u00e9 and more words of one line\n"},`, "Persian": "{\"t\":\"می\u200cخواهم فایل\u200cها را\"},", "Chinese": `{"t":"搜索文件并返回结果。"},`} {
		raw := json.RawMessage(`{"structuredContent":{"rows":[` + strings.Repeat(unit, 10_240/len(unit)) + `0]}}`)
		for _, screen := range []Screen{ScreenOff, ScreenStrip} {
			b.Run(name+"/"+strconv.Itoa(int(screen)), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(raw)))
				for b.Loop() {
					if out, err := screen.Answer(raw); err != nil || len(out) != len(raw) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
