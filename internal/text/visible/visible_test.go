package visible

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

// TestEscaped shows what Text removes.
func TestEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "": "", "a\u200bb\u202ec": `a\u200bb\u202ec`, "\U000e0041x": `\u{e0041}x`, "a\r\nb\rc\u2028d": "a\nb\nc\nd",
		"\x1b[31m\x00": `\u001b[31m\u0000`, "\xff": "\ufffd", "\U0001f468\u200d\U0001f469 می\u200cخواهم": "\U0001f468\u200d\U0001f469 می\u200cخواهم", "x\ufe0f": `x\ufe0f`,
	} {
		if got := Escaped(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestMain(m *testing.M) { leak.Main(m) }

type sample struct{ name, text, seen, kinds string }

// corpus reads testdata/corpus.txt.
func corpus(t testing.TB) []sample {
	t.Helper()
	raw, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	var samples []sample
	for i, line := range strings.Split(string(raw), "\n") {
		key, value, _ := strings.Cut(line, " ")
		if key == "" || key == "#" {
			continue
		}
		value = strings.TrimSpace(value)
		if strings.HasPrefix(value, `"`) {
			if value, err = strconv.Unquote(value); err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
		}
		switch {
		case key == "case":
			samples = append(samples, sample{name: value})
			continue
		case len(samples) == 0:
			t.Fatalf("line %d: there is no case yet", i+1)
		}
		s := &samples[len(samples)-1]
		switch key {
		case "same":
			s.text, s.seen = value, value
		case "text":
			s.text = value
		case "seen":
			s.seen = value
		case "kinds":
			s.kinds = value
		default:
			t.Fatalf("line %d: %q", i+1, key)
		}
	}
	return samples
}

func TestCorpus(t *testing.T) {
	samples := corpus(t)
	if len(samples) < 100 {
		t.Fatalf("%d cases", len(samples))
	}
	for _, s := range samples {
		if got := Text(s.text); got != s.seen {
			t.Errorf("%s: %+q, want %+q", s.name, got, s.seen)
		}
		if got := Find(s.text).String(); got != s.kinds {
			t.Errorf("%s: found %q, want %q", s.name, got, s.kinds)
		}
		if again := Text(s.seen); again != s.seen || Find(s.seen) != 0 {
			t.Errorf("%s: what is left changes again: %+q, %s", s.name, again, Find(s.seen))
		}
	}
}

// TestNoFalseAlarms: texts that people wrote hide nothing: the documents and fixtures of the repository.
func TestNoFalseAlarms(t *testing.T) {
	files := 0
	for _, dir := range []string{"docs", "examples", "interop", "bench", "internal/demo", "internal/search"} {
		err := filepath.WalkDir(filepath.Join("../../..", dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".work"): // what make interop installs
				return fs.SkipDir
			case d.IsDir() || !slices.Contains([]string{".json", ".jsonl", ".md", ".mjs", ".js", ".ts", ".py", ".txt", ".yaml", ".csv", ".go"}, filepath.Ext(path)):
				return nil
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			if kinds := Find(string(raw)); kinds != 0 || Text(string(raw)) != string(raw) {
				t.Errorf("%s: %s", path, kinds)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files < 100 {
		t.Errorf("%d files", files)
	}
}

// TestTextsInEachOther: a text that is seen stays seen between others.
func TestTextsInEachOther(t *testing.T) {
	for _, s := range corpus(t) {
		if s.text == s.seen && s.kinds == "" {
			if text := "Words. " + s.text + " More words."; Text(text) != text {
				t.Errorf("%s: %+q", s.name, Text(text))
			}
		}
	}
}

// TestJSON: a JSON text means the same and holds nothing that a terminal obeys.
func TestJSON(t *testing.T) {
	for _, s := range corpus(t) {
		raw, err := json.Marshal(map[string]string{s.text: s.text})
		if err != nil {
			t.Fatal(err)
		}
		out := JSON(raw)
		var back map[string]string
		if err := json.Unmarshal(out, &back); err != nil || back[s.text] != s.text {
			t.Errorf("%s: %s, %v", s.name, out, err)
		}
		for _, r := range string(out) {
			if r != '\n' && unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 && s.kinds != "" && s.kinds == "Unicode tags" && !strings.ContainsRune(s.seen, r) {
				t.Errorf("%s: %U in %+q", s.name, r, out)
			}
		}
		if s.text == s.seen && !strings.ContainsAny(s.text, "\"\\\n\r\t") && !strings.Contains(string(out), s.text) {
			t.Errorf("%s: what is seen is escaped: %s", s.name, out)
		}
	}
	for _, plain := range []string{`{"a":"b é 漢"}`, `{"bad":"` + "\xff" + `"}`} {
		if got := string(JSON([]byte(plain))); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range corpus(f) {
		f.Add(s.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) && utf8.ValidString(s) {
			t.Errorf("%q became %q", s, got)
		}
		for _, r := range got {
			switch {
			case r == '\n' || r == '\t' || r == '\r':
			case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
				t.Errorf("%U is left of %q", r, s)
			}
		}
		if Find(s) == 0 && strings.Trim(got, "\n\ufffd") == "" && strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == utf8.RuneError || r == 0xfeff }) != "" {
			t.Errorf("all of %q went, and nothing is told", s)
		}
		if raw, err := json.Marshal(s); err == nil {
			var a, b string
			if json.Unmarshal(raw, &a) != nil || json.Unmarshal(JSON(raw), &b) != nil || a != b {
				t.Errorf("%q as JSON: %q, %q", s, a, b)
			}
		}
	})
}

func ExampleText() {
	s := "Reads a file.\u200b\U000E0048\U000E0069"
	fmt.Printf("%s %q\n", Find(s), Text(s))
	// Output: Unicode tags and zero-width characters "Reads a file."
}

func BenchmarkText(b *testing.B) {
	for name, unit := range map[string]string{"ASCII": "Reads a file and returns its text. ", "Persian": "می\u200cخواهم فایل\u200cها را ", "Chinese": "搜索文件并返回结果。"} {
		text := strings.Repeat(unit, 2000/len(unit)+1)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if len(Text(text)) != len(text) {
					b.Fatal("changed")
				}
			}
		})
	}
}
