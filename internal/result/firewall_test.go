package result

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// kept is a Keeper that remembers.
type kept map[string]string

func (k kept) keep(mediaType, label string, data []byte, _ *artifact.Digest) (artifact.Artifact, error) {
	sum := sha256.Sum256(data)
	a := artifact.Artifact{Handle: fmt.Sprintf("art_%x", sum[:8]), MediaType: mediaType, Label: label, SizeBytes: int64(len(data)), ContentHash: hex.EncodeToString(sum[:])}
	k[a.Handle] = string(data)
	return a, nil
}

func shape(t *testing.T, f Firewall, result string, format Format) (shaped, kept, string) {
	t.Helper()
	k := kept{}
	out, _, err := f.Shape([]byte(result), &Provenance{Tool: "read", Protocol: "mcp", ToolID: "disk:read#12345678"}, format, k.keep)
	if err != nil {
		t.Fatalf("Shape: %v", err)
	}
	var s shaped
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	raw := s.Meta[MetaEnvelope]
	if format == FormatJSON {
		raw = s.StructuredContent
	}
	if err := json.Unmarshal(raw, &s.env); err != nil {
		t.Fatalf("envelope %s: %v", raw, err)
	}
	if format != FormatJSON {
		if s.env.Summary != "" || s.env.Facts != nil || rawjson.Get(raw, "summary") != nil {
			t.Errorf("_meta repeats the content: %s", raw)
		}
		// The summary and the facts are in the envelope that is the content.
		whole, _, _ := shape(t, f, result, FormatJSON)
		s.env.Summary, s.env.Facts = whole.env.Summary, whole.env.Facts
	}
	return s, k, string(out)
}

// Some clients give _meta to the model: no text of the content is there a second time.
func TestMetaDoesNotRepeatTheContent(t *testing.T) {
	for name, text := range map[string]string{
		"passes": "the answer: forty-two",
		"held":   "the answer: forty-two\n" + strings.Repeat("a line\n", 2000),
		"table":  "[" + strings.Repeat(`{"answer":"forty-two","n":1},`, 300) + `{"answer":"forty-two","n":2}]`,
	} {
		s, _, _ := shape(t, Firewall{}, `{"content":[{"type":"text","text":`+string(rawjson.Quote(text))+`}]}`, FormatText)
		if meta := string(s.Meta[MetaEnvelope]); strings.Contains(meta, "forty-two") || len(s.env.Facts) == 0 {
			t.Errorf("%s: %s", name, meta)
		}
	}
}

func TestShapePassesByteForByte(t *testing.T) {
	env := `"weir/envelope":{"status":"ok","artifacts":[],"views":[],` +
		`"provenance":{"tool":"read","protocol":"mcp","tool_id":"disk:read#12345678"},` +
		`"firewall_stats":{"triggered":false,"strategy":"passthrough","threshold_chars":2000,"original_chars":4,"summary_chars":4,"artifact_ref":null}}`
	tests := []struct{ name, in, want string }{
		{"no _meta",
			`{ "content" : [ {"type":"text", "text":"hé\u00e9\n"} ] }`,
			`{ "content" : [ {"type":"text", "text":"hé\u00e9\n"} ] ,"_meta":{` + env + `}}`},
		{"a _meta with members",
			`{"_meta":{"x":12345678901234567890, "y":{}},"content":[{"text":"hé\u00e9\n","type":"text","unknown":1.50}],"later":[1,2]}`,
			`{"_meta":{"x":12345678901234567890, "y":{},` + env + `},"content":[{"text":"hé\u00e9\n","type":"text","unknown":1.50}],"later":[1,2]}`},
		{"an empty _meta",
			`{"_meta":{},"content":[{"type":"text","text":"hé\u00e9\n"}]}`,
			`{"_meta":{` + env + `},"content":[{"type":"text","text":"hé\u00e9\n"}]}`},
		{"an envelope of another gateway",
			`{"_meta":{"weir/envelope":{"old":1},"x":1},"content":[{"type":"text","text":"hé\u00e9\n"}]}`,
			`{"_meta":{` + env + `,"x":1},"content":[{"type":"text","text":"hé\u00e9\n"}]}`},
	}
	for _, tt := range tests {
		out, _, err := Firewall{}.Shape([]byte(tt.in), &Provenance{Tool: "read", Protocol: "mcp", ToolID: "disk:read#12345678"}, FormatText, nil)
		if err != nil || string(out) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tt.name, err, out, tt.want)
		}
	}
}

func TestShapePassesOtherBlocks(t *testing.T) {
	image := base64.StdEncoding.EncodeToString(make([]byte, 900_000))
	blocks := `[{"type":"image","data":"` + image + `","mimeType":"image/png"},{"type":"resource_link","uri":"x:y"},` +
		`{"type":"resource","resource":{"uri":"u","text":"small"}},{"type":"hologram","beams":[1,2,3]},{"type":"text","text":"t","annotations":{"priority":1}}]`
	s, k, out := shape(t, Firewall{}, `{"content":`+blocks+`,"structuredContent":{"n":1e400},"isError":true}`, FormatText)
	if !strings.Contains(out, blocks) || !strings.Contains(out, `"structuredContent":{"n":1e400},"isError":true`) {
		t.Errorf("blocks were touched: %.300s", out)
	}
	if len(k) != 0 || s.env.Stats.Triggered || s.env.Status != "error" || !s.IsError {
		t.Errorf("kept %d, envelope %+v", len(k), s.env)
	}
	if got := fmt.Sprint(s.env.Provenance["content_annotations"]); got != "[map[annotations:map[priority:1] part:4]]" {
		t.Errorf("content_annotations %s", got)
	}
}

func TestShapeThreshold(t *testing.T) {
	for _, tt := range []struct {
		text string
		held bool
	}{
		{strings.Repeat("é", 15), false},
		{strings.Repeat("é", 16), true},
		{strings.Repeat("😀", 15), false},
		{strings.Repeat("\n", 15), false},
		{strings.Repeat("\n", 16), true},
	} {
		s, _, _ := shape(t, Firewall{ThresholdChars: 10}, textResult(tt.text), FormatText)
		if s.env.Stats.Triggered != tt.held || s.env.Stats.OriginalChars != utf8.RuneCountInString(tt.text) || s.env.Stats.ThresholdChars != 10 {
			t.Errorf("%q: %+v", tt.text, s.env.Stats)
		}
	}
	if s, _, _ := shape(t, Firewall{ThresholdChars: -1}, textResult("x"), FormatText); !s.env.Stats.Triggered {
		t.Error("a threshold of nothing lets a character pass")
	}
	if n := stringChars([]byte(`"\ud83d\ude00\u00e9\\\"a\ud83d"`)); n != 6 {
		t.Errorf("stringChars counts %d, want 6", n)
	}
}

func TestShapeHoldsText(t *testing.T) {
	sentence := "The quick brown fox jumps over the lazy dog. "
	text := strings.Repeat(sentence, 20) + "\n\nname: weir\n  owner: ann  \nno fact here\n" + strings.Repeat("filler text without any colon\n", 100)
	s, k, _ := shape(t, Firewall{}, textResult(text), FormatText)
	if len(s.Content) != 1 || s.StructuredContent != nil || len(s.env.Artifacts) != 1 {
		t.Fatalf("%d blocks, structuredContent %s, %d artifacts", len(s.Content), s.StructuredContent, len(s.env.Artifacts))
	}
	a := s.env.Artifacts[0]
	if k[a.Handle] != text || a.MediaType != "text/plain" || a.SizeBytes != int64(len(text)) || a.Label != "disk:read#12345678" {
		t.Errorf("artifact %+v holds %d bytes of %d", a, len(k[a.Handle]), len(text))
	}
	want := strings.TrimSpace(strings.Repeat(sentence, 11)) + "…"
	if s.env.Summary != want {
		t.Errorf("summary %q, want %q", s.env.Summary, want)
	}
	shown := s.Content[0].Text
	for _, part := range []string{want, a.Handle, "tool_view", "name: weir", "owner: ann"} {
		if !strings.Contains(shown, part) {
			t.Errorf("%q is not in the text shown:\n%s", part, shown)
		}
	}
	if n := utf8.RuneCountInString(shown); n > 2000 {
		t.Errorf("%d characters are shown", n)
	}
	if len(s.env.Facts) != 2 || s.env.Facts[0] != "name: weir" || s.env.Facts[1] != "owner: ann" {
		t.Errorf("facts %q", s.env.Facts)
	}
	if st := s.env.Stats; !st.Triggered || st.Strategy != "summary" || *st.ArtifactRef != a.Handle || st.SummaryChars != utf8.RuneCountInString(shown) || st.OriginalTokens != nil {
		t.Errorf("stats %+v", st)
	}
}

func TestShapeHoldsTable(t *testing.T) {
	var rows []string
	for i := range 200 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"name":"station %d","level":%d.5,"note":null}`, i, i, i))
	}
	array := "[" + strings.Join(rows, ",") + "]"
	tests := []struct {
		name, result, stored, media, at string
	}{
		{"array", textResult(array), array, "application/json", ""},
		{"one member", textResult(`{"result":` + array + `}`), `{"result":` + array + `}`, "application/json", "$.result"},
		{"lines", textResult(strings.Join(rows, "\n")), strings.Join(rows, "\n"), "application/x-ndjson", ""},
		{"one block a row", textResult(rows...), "[" + strings.Join(rows, ",\n") + "]", "application/json", ""},
		{"structuredContent alone", `{"content":[],"structuredContent":{"result":` + array + `}}`, `{"result":` + array + `}`, "application/json", "$.result"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, k, _ := shape(t, Firewall{}, tt.result, FormatText)
			if len(s.Content) != 1 || len(s.env.Artifacts) != 1 || len(s.StructuredContent) != 0 {
				t.Fatalf("%d blocks, %d artifacts, structuredContent %.50s", len(s.Content), len(s.env.Artifacts), s.StructuredContent)
			}
			a := s.env.Artifacts[0]
			if k[a.Handle] != tt.stored || a.MediaType != tt.media {
				t.Errorf("stored %s %.100s", a.MediaType, k[a.Handle])
			}
			shown := s.Content[0].Text
			for _, part := range []string{"200 rows × 4 columns", "id integer, name string, level number, note null", `{"id":0,"name":"station 0","level":0.5,"note":null}`, `{"id":2,`, a.Handle, tt.at, `{"type":"table","columns":["id","name","level"],"limit":20}`, `{"$table":"<handle>"}`} {
				if !strings.Contains(shown, part) {
					t.Errorf("%q is not in the text shown:\n%s", part, shown)
				}
			}
			if strings.Contains(shown, `{"id":3,`) {
				t.Errorf("more than three sample rows:\n%s", shown)
			}
			if s.env.Stats.Strategy != "table" || *s.env.Stats.ArtifactRef != a.Handle || !strings.HasPrefix(s.env.Summary, "table: 200 rows × 4 columns") {
				t.Errorf("stats %+v, summary %q", s.env.Stats, s.env.Summary)
			}
			if len(s.env.Views) == 0 {
				t.Error("no views are offered")
			}
			for _, v := range s.env.Views {
				view, err := selectBytes(t.Context(), a, []byte(k[a.Handle]), v, ViewOptions{})
				if err != nil || view.Text == "" {
					t.Errorf("the offered view %s: %q, %v", v, view.Text, err)
				}
			}
		})
	}
}

func TestShapeHoldsJSON(t *testing.T) {
	text := `{"total":12345678901234567890,"next":"abc","resource_url":"http://127.0.0.1:1/s2sp/data/xyz","text":"` + strings.Repeat("x", 3000) + `","items":[` + strings.Repeat(`{"a":1,"b":"x"},`, 200) + `{"a":1}],"empty":{}}`
	s, k, _ := shape(t, Firewall{}, textResult(text), FormatText)
	a := s.env.Artifacts[0]
	for _, part := range []string{"201 rows × 2 columns at $.items, in a JSON object with 6 keys", "total: integer 12345678901234567890", `next: string "abc"`, "a integer, b string", "text: string of 3000 characters", "empty: object with 0 keys", a.Handle, "resource_url: http://127.0.0.1:1/s2sp/data/xyz"} {
		if !strings.Contains(s.Content[0].Text, part) {
			t.Errorf("%q is not in the text shown:\n%s", part, s.Content[0].Text)
		}
	}
	if s.env.Stats.Strategy != "table" || a.MediaType != "application/json" || k[a.Handle] != text {
		t.Errorf("%+v, %+v", s.env.Stats, a)
	}
	for _, v := range s.env.Views {
		if _, err := selectBytes(t.Context(), a, []byte(k[a.Handle]), v, ViewOptions{}); err != nil {
			t.Errorf("the offered view %s: %v", v, err)
		}
	}
}

func TestShapeParts(t *testing.T) {
	big := strings.Repeat("word ", 1000)
	png := strings.Repeat("\x89PNG\x00", 300_000)
	pdf := "%PDF\x00\xff" + strings.Repeat("p", 3000)
	result := `{"content":[{"type":"text","text":"intro"},` +
		`{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString([]byte(png)) + `"},` +
		`{"type":"resource","resource":{"uri":"file:///a.pdf","mimeType":"application/pdf","blob":"` + base64.StdEncoding.EncodeToString([]byte(pdf)) + `"}},` +
		`{"type":"resource","resource":{"uri":"file:///a.txt","text":` + string(rawjson.Quote(big)) + `}},` +
		`{"type":"text","text":"outro"}],"structuredContent":{"long":"` + big + `"},"resultType":"complete"}`
	s, k, out := shape(t, Firewall{}, result, FormatText)
	if len(s.Content) != 6 || s.Content[0].Text != "intro" || s.Content[4].Text != "outro" {
		t.Fatalf("content %+v", s.Content)
	}
	var held []string
	for _, a := range s.env.Artifacts {
		held = append(held, fmt.Sprint(a.MediaType, " ", len(k[a.Handle])))
		if !strings.Contains(out, a.Handle+" ") && !strings.Contains(out, a.Handle+". ") {
			t.Errorf("%s is not told", a.Handle)
		}
	}
	if got, want := strings.Join(held, ","), fmt.Sprintf("image/png %d,application/pdf %d,text/plain %d,application/json %d", len(png), len(pdf), len(big), len(`{"long":""}`)+len(big)); got != want {
		t.Errorf("artifacts %s\nwant %s", got, want)
	}
	if s.StructuredContent != nil || !strings.Contains(out, `"resultType":"complete"`) || s.env.Stats.Strategy != "projection" {
		t.Errorf("structuredContent %.40s, stats %+v", s.StructuredContent, s.env.Stats)
	}
	if k[s.env.Artifacts[1].Handle] != pdf {
		t.Error("the blob was not stored decoded")
	}
}

func TestShapeManyPartsIsBounded(t *testing.T) {
	var blocks []string
	for i := range 500 {
		blocks = append(blocks, fmt.Sprintf(`{"type":"resource","resource":{"uri":"x:%d","text":"%s"}}`, i, strings.Repeat("y", 3000)))
	}
	s, k, _ := shape(t, Firewall{}, `{"content":[`+strings.Join(blocks, ",")+`]}`, FormatText)
	if len(k) > maxDescribed+1 {
		t.Errorf("%d artifacts", len(k))
	}
	total := 0
	for _, c := range s.Content {
		total += utf8.RuneCountInString(c.Text)
	}
	if total > 8000 {
		t.Errorf("%d characters are shown", total)
	}
	last := s.env.Artifacts[len(s.env.Artifacts)-1]
	if !strings.Contains(k[last.Handle], blocks[499]) {
		t.Error("the last block is lost")
	}
}

func TestShapeStructuredCopyIsToldOnce(t *testing.T) {
	text := `{"items": [` + strings.Repeat(`"some words", `, 300) + `"end"]}`
	for _, structured := range []string{text, `{"result":` + text + `}`, `{"result":` + string(rawjson.Quote(text)) + `}`} {
		s, k, _ := shape(t, Firewall{}, strings.TrimSuffix(textResult(text), "}")+`,"structuredContent":`+structured+`}`, FormatText)
		if len(s.Content) != 1 || s.StructuredContent != nil {
			t.Errorf("%d blocks, structuredContent %.40s", len(s.Content), s.StructuredContent)
		}
		if len(s.env.Artifacts) != 1 || k[s.env.Artifacts[0].Handle] != text {
			t.Errorf("%d artifacts", len(s.env.Artifacts))
		}
	}
}

func TestShapeJSONFormat(t *testing.T) {
	s, k, _ := shape(t, Firewall{}, `{"content":[{"type":"text","text":"a: 1"},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"resource","resource":{"uri":"u","blob":"AAECAw=="}}],"structuredContent":{"a":1},"isError":false}`, FormatJSON)
	if len(s.Content) != 2 || s.Content[1].Type != "image" {
		t.Fatalf("content %+v", s.Content)
	}
	var text testEnvelope
	if err := json.Unmarshal([]byte(s.Content[0].Text), &text); err != nil || text.Summary != "a: 1" || s.env.Summary != "a: 1" {
		t.Errorf("%v in %s", err, s.Content[0].Text)
	}
	if len(s.env.Artifacts) != 2 || k[s.env.Artifacts[0].Handle] != "\x00\x01\x02\x03" || k[s.env.Artifacts[1].Handle] != `{"a":1}` {
		t.Errorf("artifacts %+v %q", s.env.Artifacts, k)
	}
	if _, also := s.Meta[MetaEnvelope]; also {
		t.Error("the envelope is told three times")
	}
	s, _, _ = shape(t, Firewall{}, textResult("short"), FormatJSON)
	if s.env.Stats.Triggered || s.env.Summary != "short" || s.env.Status != "ok" {
		t.Errorf("envelope %+v", s.env)
	}
}

func TestShapeKeepFails(t *testing.T) {
	fail := func(string, string, []byte, *artifact.Digest) (artifact.Artifact, error) {
		return artifact.Artifact{}, errors.New("no room")
	}
	out, _, err := Firewall{}.Shape([]byte(textResult(strings.Repeat("x. ", 2000))), nil, FormatText, fail)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out); !strings.Contains(got, `"status":"partial"`) || !strings.Contains(got, "could not be kept: no room") || strings.Contains(got, "tool_view") {
		t.Errorf("%s", got)
	}
}

func TestShapeLeavesUnfinishedAlone(t *testing.T) {
	in := `{"resultType":"input_required","inputRequests":{"a":{}},"requestState":"s"}`
	out, _, err := Firewall{}.Shape([]byte(in), nil, FormatText, nil)
	if err != nil || string(out) != in {
		t.Errorf("%s, %v", out, err)
	}
}

func TestShapeRefusesMalformed(t *testing.T) {
	for _, in := range []string{"", "null", "[]", `{"content":{}}`, `{"content":[1]}`, `{"content":[{"type":"text","text":"a","text":"b"}]}`, `{"content":[],"content":[]}`, `{"content":[{"type":"text"`} {
		if out, _, err := (Firewall{}).Shape([]byte(in), nil, FormatText, kept{}.keep); !errors.Is(err, errBadResult) {
			t.Errorf("%s: %s, %v", in, out, err)
		}
	}
}

func TestShapeCountsTokens(t *testing.T) {
	words := func(s string) int { return len(strings.Fields(s)) }
	s, _, _ := shape(t, Firewall{CountTokens: words}, textResult("one two three"), FormatText)
	if s.env.Stats.OriginalTokens == nil || *s.env.Stats.OriginalTokens != 3 || *s.env.Stats.SummaryTokens != 3 {
		t.Errorf("stats %+v", s.env.Stats)
	}
	s, _, _ = shape(t, Firewall{CountTokens: words, ThresholdChars: 1_000_000}, textResult(strings.Repeat("one two ", 5000)), FormatText)
	if s.env.Stats.Triggered || s.env.Stats.OriginalTokens != nil {
		t.Errorf("a large result was counted: %+v", s.env.Stats)
	}
	s, _, _ = shape(t, Firewall{CountTokens: words}, textResult(strings.Repeat("one two ", 1000)), FormatText)
	if s.env.Stats.OriginalTokens != nil || s.env.Stats.SummaryTokens == nil || *s.env.Stats.SummaryTokens != words(s.Content[0].Text) {
		t.Errorf("stats %+v", s.env.Stats)
	}
}

// A result without text has no tokens of text, which is a figure and not its
// absence: only what is too large to count at once is left out.
func TestShapeCountsNoTextAsZero(t *testing.T) {
	f := Firewall{CountTokens: func(s string) int { return len(s) }}
	for _, result := range []string{
		`{}`,
		`{"content":[]}`,
		`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
		`{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`,
	} {
		for _, format := range []Format{FormatText, FormatJSON} {
			s, _, out := shape(t, f, result, format)
			held := len(s.env.Artifacts) > 0 // and told of, which costs tokens
			original, summary := s.env.Stats.OriginalTokens, s.env.Stats.SummaryTokens
			if summary == nil || !held && *summary != 0 || s.env.Stats.OriginalChars == 0 && (original == nil || *original != 0) {
				t.Errorf("%s", out)
			}
		}
	}
}

// The text of structuredContent stands in where there is no content, because clients may show content
// alone. A large one is described.
func TestStructuredStandsIn(t *testing.T) {
	f := Firewall{CountTokens: func(s string) int { return len(s) }}
	for _, result := range []string{
		`{"content":[],"structuredContent":{"n":7,"s":"é"}}`, `{"structuredContent":{"n":7,"s":"é"}}`, `{"content":[],"structuredContent":{"n":7,"s":"é"},"isError":true}`, `{"content": [ ],"structuredContent":{"n":7,"s":"é"}}`,
	} {
		s, _, out := shape(t, f, result, FormatText)
		if len(s.Content) != 1 || s.Content[0].Text != `{"n":7,"s":"é"}` || string(s.StructuredContent) != `{"n":7,"s":"é"}` || len(s.env.Artifacts) > 0 || s.env.Stats.OriginalChars != 15 {
			t.Errorf("%s became %s", result, out)
		}
	}
	for _, result := range []string{`{"content":[],"structuredContent":null}`, `{"content":[]}`, `{}`} {
		if s, _, out := shape(t, f, result, FormatText); len(s.Content) > 0 {
			t.Errorf("%s became %s", result, out)
		}
	}
	large := `{"content":[],"structuredContent":{"s":"` + strings.Repeat("word ", 1000) + `"}}`
	if s, _, out := shape(t, f, large, FormatText); len(s.Content) != 1 || len(s.env.Artifacts) != 1 || s.StructuredContent != nil {
		t.Errorf("a large one became %.300s", out)
	}
}

// A small structuredContent is shown next to held-back text, without a handle of its own.
func TestSmallStructuredIsShown(t *testing.T) {
	for structured, shown := range map[string]bool{`{"next":"token-12"}`: true, `{"s":"` + strings.Repeat("x", 300) + `"}`: false} {
		s, _, out := shape(t, Firewall{}, strings.TrimSuffix(textResult(strings.Repeat("word ", 1000)), "}")+`,"structuredContent":`+structured+`}`, FormatText)
		if len(s.Content) != 2 || (s.Content[1].Text == "structuredContent: "+structured) != shown || (len(s.env.Artifacts) == 1) != shown {
			t.Errorf("%s: %s", structured, out)
		}
	}
}

func TestSummarize(t *testing.T) {
	long := strings.Repeat("x", 600)
	tests := []struct{ in, want string }{
		{"", ""},
		{"\n\n One. \nTwo. \r\n \t\r\nThree.", "One. \nTwo."},
		{"\ufeffOne.", "One."},
		{"First sentence. " + long, "First sentence.…"},
		{"Version 1.5" + long, "Version 1.5" + long[:488] + "…"},
		{long, long[:499] + "…"},
		{long[:500], long[:500]},
	}
	for _, tt := range tests {
		if got := summarize(tt.in, strings.Clone); got != tt.want {
			t.Errorf("summarize(%.30q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestFacts(t *testing.T) {
	var lines []string
	for i := range 30 {
		lines = append(lines, fmt.Sprintf("  key%d: value\t", i), "no fact", strings.Repeat("y", 200)+": too long")
	}
	facts := factsOf(strings.Join(lines, "\n"))
	if len(facts) != 20 || facts[0] != "key0: value" || facts[19] != "key19: value" {
		t.Errorf("%q", facts)
	}
}

func FuzzShape(f *testing.F) {
	f.Add([]byte(textResult("a: b")), 10)
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"blob":"!!"}}],"structuredContent":[1]}`), 1)
	f.Add([]byte(`{"content":[{"type":"text","text":"{\"a\":[{\"b\":1}]}"}],"_meta":null}`), 3)
	f.Fuzz(func(t *testing.T, in []byte, threshold int) {
		for _, format := range []Format{FormatText, FormatJSON} {
			out, _, err := Firewall{ThresholdChars: threshold}.Shape(in, nil, format, kept{}.keep)
			if err == nil && !json.Valid(out) {
				t.Errorf("%s becomes %s", in, out)
			}
		}
	})
}

// The store is told how many rows a part has that is held back.
func TestHeldRowsAreCounted(t *testing.T) {
	row := `{"a":"` + strings.Repeat("x", 50) + `"}`
	for text, want := range map[string]int{
		"[" + strings.Repeat(row+",", 9) + row + "]":      10,
		`{"items":[` + row + `,` + row + `],"more":true}`: 2,
		`"` + strings.Repeat("no table ", 50) + `"`:       0,
	} {
		rows := -1
		keep := func(mediaType, label string, data []byte, digest *artifact.Digest) (artifact.Artifact, error) {
			rows = digest.Rows
			return kept{}.keep(mediaType, label, data, digest)
		}
		result := `{"content":[{"type":"text","text":` + string(rawjson.Quote(text)) + `}]}`
		if _, _, err := (Firewall{ThresholdChars: 40}).Shape([]byte(result), &Provenance{Tool: "read"}, FormatJSON, keep); err != nil || rows != want {
			t.Errorf("%.20s: %d rows are told, want %d; %v", text, rows, want, err)
		}
	}
}
