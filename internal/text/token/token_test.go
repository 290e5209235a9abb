package token

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// reference is the encoder the vocabulary was generated from.
var reference = sync.OnceValue(codec.NewCl100kBase)

// The reference differs from the encoding's own pattern in two places: it stops
// at the first line end of a run of white space, where \s*[\r\n]+ goes on to the
// last, and it loses DEL. TestSplit covers these; other texts are compared.
var referenceFails = regexp.MustCompile(`\x7f|[\r\n][\t\v\f \x{85}\p{Z}]+[\r\n]`)

func referenceCount(t testing.TB, s string) int {
	t.Helper()
	if referenceFails.MatchString(s) {
		return Count(s)
	}
	n, err := reference().Count(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every token of the reference is in the table with its rank, and nothing else.
func TestVocabularyIsTheReferences(t *testing.T) {
	longest := 0
	for id := range uint(100256) {
		token, err := reference().Decode([]uint{id})
		if err != nil {
			t.Fatal(err)
		}
		if got := rank(token); got != uint32(id) {
			t.Fatalf("rank(%q) = %d, want %d", token, got, id)
		}
		longest = max(longest, len(token))
	}
	if longest != maxTokenLen {
		t.Errorf("longest token has %d bytes, maxTokenLen is %d", longest, maxTokenLen)
	}
	for _, s := range []string{"", "zzzzqqqq", strings.Repeat("x", 129), "\xff\xfe\xfd"} {
		if got := rank(s); got != noRank {
			t.Errorf("rank(%q) = %d, want none", s, got)
		}
	}
}

var samples = []string{
	"", " ", "a", "hello world", "Hello, World! It's 12345678 o'clock; WE'LL see, they'Re here'D",
	"  two  spaces   three \t tab\n\nlines \r\n end  ", "\n\n\n x", "   \n  y", "trailing   ",
	"naïve café déjà vu – “quoted” … ½ ², Ⅷ", "使用必应搜索指定的关键词，并返回搜索结果列表", "日本語のテキスト。", "한국어 텍스트",
	"👩‍👩‍👧‍👦 family 🇩🇪", "עברית العربية हिन्दी ไทย", "snake_case camelCase kebab-case x.y/z", "don'ſ 'ſ 'K",
	`{"type":"object","properties":{"a":{"type":"string"}}}`, "github:create_issue#559d82ea (tool) — Creates an issue.",
	"\u00a0\u2003\u3000x\u0085y\u200bz\u180e", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("ab", 500), strings.Repeat("é", 200),
	strings.Repeat("=", 300), strings.Repeat(" ", 200) + "x", "<|endoftext|>", "....!!!???\n\n..",
}

func TestCountIsTheReferences(t *testing.T) {
	for _, s := range samples {
		if got, want := Count(s), referenceCount(t, s); got != want {
			t.Errorf("Count(%q) = %d, want %d", s, got, want)
		}
		if got, want := CountBytes([]byte(s)), Count(s); got != want {
			t.Errorf("CountBytes(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestCountOfRandomTextIsTheReferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("aabcdeESTRLlmdv''  \t\n\r..,!?-_019éſß中文字\u00a0\u2028😀ⅷ²ำ́")
	for range 3000 {
		runes := make([]rune, rng.IntN(150))
		for i := range runes {
			runes[i] = alphabet[rng.IntN(len(alphabet))]
		}
		s := string(runes)
		if got, want := Count(s), referenceCount(t, s); got != want {
			t.Fatalf("Count(%q) = %d, want %d", s, got, want)
		}
	}
}

// prose returns a text of so many bytes and some thousand words, the first of which are frequent.
func prose(size int) string {
	var words []string
	for id := uint(256); len(words) < 5000; id++ {
		if word, err := reference().Decode([]uint{id}); err == nil && len(word) > 2 && word[0] == ' ' && isLetters(word[1:]) {
			words = append(words, word+strings.Repeat("q", int(id%8/7))) // some are no token
		}
	}
	frequency := rand.NewZipf(rand.New(rand.NewPCG(3, 4)), 1.1, 8, uint64(len(words)-1))
	var text []byte
	for n := 1; len(text) < size; n++ {
		text = append(text, words[frequency.Uint64()]...)
		if n%12 == 0 {
			text = append(text, ".\n"...)
		}
	}
	return string(text[:size])
}

func isLetters(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
}

// countAnew counts each piece without recalling another one.
func countAnew(s string) (n int) {
	for i := 0; i < len(s); {
		end := nextPiece(s, i)
		n += countPiece(s[i:end])
		i = end
	}
	return n
}

// A text that is long enough for recall has the same number of tokens, also if pieces that share an
// entry alternate, differ in trailing zero bytes only, or stand at the very end.
func TestCountOfLargeTextIsTheReferences(t *testing.T) {
	alternating := make([]string, 0, 4000)
	for i := range 4000 {
		alternating = append(alternating, fmt.Sprintf(" w%c%cq a\x00 a\x00\x00 %s", 'a'+i%26, 'a'+i/26%26, strings.Repeat("xyz", i%7)))
	}
	for _, s := range []string{
		prose(50_000), strings.Join(alternating, ""), strings.Repeat(strings.Join(samples, " "), 8), strings.Repeat("\xff\xfe ab\xff", 2000),
		strings.Repeat(" twelve letters", 400) + " t", strings.Repeat(" twelve letters", 400) + " fourteenletters",
	} {
		for cut := range 20 {
			text := s[:len(s)-cut]
			if len(text) < recallFrom {
				t.Fatalf("a text of %d bytes is not large", len(text))
			}
			if got, want := Count(text), countAnew(text); got != want {
				t.Fatalf("Count(%.40q…) = %d, want %d", text, got, want)
			}
		}
		if utf8.ValidString(s) {
			if got, want := Count(s), referenceCount(t, s); got != want {
				t.Errorf("Count(%.40q…) = %d, want %d as the reference", s, got, want)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{"\n \n", []string{"\n \n"}},
		{"\x7f", []string{"\x7f"}},
		{"v\n\t\nE", []string{"v", "\n\t\n", "E"}},
		{"a  \n  b", []string{"a", "  \n", " ", " b"}},
		{"a \r\n\r\n", []string{"a", " \r\n\r\n"}},
		{"   x", []string{"  ", " x"}},
		{"   1", []string{"  ", " ", "1"}},
		{"x   ", []string{"x", "   "}},
		{"'ſa", []string{"'ſ", "a"}},
		{"we'LLs", []string{"we", "'LL", "s"}},
		{"12345", []string{"123", "45"}},
		{" ...\r\nx", []string{" ...\r\n", "x"}},
		{"(foo)", []string{"(foo", ")"}},
		{"\tfoo \t-", []string{"\tfoo", " ", "\t", "-"}},
	}
	for _, tt := range tests {
		var got []string
		for i := 0; i < len(tt.in); {
			end := nextPiece(tt.in, i)
			got = append(got, tt.in[i:end])
			i = end
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q splits into %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzCount(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		if got, want := Count(s), referenceCount(t, s); got != want {
			t.Errorf("Count(%q) = %d, want %d", s, got, want)
		}
	})
}

func TestBothMergesAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		b := make([]byte, 2+rng.IntN(smallPiece-2))
		for i := range b {
			b[i] = "abcdefghijklmnopqrstuvwxyzeeeaaattt"[rng.IntN(35)]
		}
		small, large := mergeSmall(nil, string(b)), mergeLarge(nil, string(b))
		if fmt.Sprint(small) != fmt.Sprint(large) {
			t.Fatalf("%s: small %v, large %v", b, small, large)
		}
	}
}

func TestInvalidUTF8IsCounted(t *testing.T) {
	for _, s := range []string{"\xff", "a\x80b", "\xe4\xb8", strings.Repeat("\xf0", 100)} {
		if n := Count(s); n < 1 || n > len(s) {
			t.Errorf("Count(%q) = %d, want 1..%d", s, n, len(s))
		}
	}
}

func TestFits(t *testing.T) {
	for _, s := range samples {
		n := Count(s)
		for _, budget := range []int{-1, 0, n - 1, n, n + 1, 1000} {
			if got, want := fits(s, budget), n <= budget; got != want {
				t.Errorf("Fits(%q, %d) = %v, Count is %d", s, budget, got, n)
			}
		}
	}
}

func TestTruncate(t *testing.T) {
	const text = "Reads a file. Returns its text! Is it binary? Then it is base64 of version 1.5 of the encoding"
	tests := []struct {
		name   string
		in     string
		budget int
		want   string
	}{
		{"fits", text, Count(text), text},
		{"empty", "", 0, ""},
		{"no budget", text, 0, ""},
		{"negative budget", text, -3, ""},
		{"room for the mark only", "alpha beta gamma", 1, "…"},
		{"longest sentence that fits", text, Count(text) - 1, "Reads a file. Returns its text! Is it binary?"},
		{"sentence of exactly the budget", text, Count("Reads a file."), "Reads a file."},
		{"one less cuts hard", text, Count("Reads a file.") - 1, "Reads a…"},
		{"a point inside a number ends nothing", "Version 1.5 of the old encoding rules", 5, "Version 1.…"},
		{"terminator before a line end", "One.\nTwo three four five six", 4, "One."},
		{"terminator before a wide space", "One.\u3000Two three four five six seven eight", 6, "One."},
		{"run of terminators", "Really?! Well then we go on", 3, "Really?!"},
		{"terminator before a quote ends nothing", `"Stop." he said, then left for home`, 4, `"Stop."…`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Truncate(tt.in, tt.budget)
			if got != tt.want {
				t.Errorf("Truncate(%q, %d) = %q, want %q", tt.in, tt.budget, got, tt.want)
			}
		})
	}
}

// An independent statement of spec/gateway §2.4 over all budgets of all samples.
func TestTruncateKeepsItsPromise(t *testing.T) {
	terminator := regexp.MustCompile(`[.!?](?:[\s\x{85}\p{Z}]|$)`)
	texts := append([]string{"Go. Stop! Who? " + strings.Repeat("word ", 40) + "end. More text, x.y z"}, samples...)
	for _, s := range texts {
		for budget := 1; budget <= min(Count(s)+1, 90); budget++ {
			got := Truncate(s, budget)
			if n := referenceCount(t, got); n > budget {
				t.Errorf("Truncate(%q, %d) = %q has %d tokens", s, budget, got, n)
			}
			if Count(s) <= budget {
				if got != s {
					t.Errorf("Truncate(%q, %d) = %q, want it whole", s, budget, got)
				}
				continue
			}
			want := ""
			for _, m := range terminator.FindAllStringIndex(s, -1) {
				if p := s[:m[0]+1]; referenceCount(t, p) <= budget && len(p) > len(want) {
					want = p
				}
			}
			if want != "" && got != want {
				t.Errorf("Truncate(%q, %d) = %q, want the sentence %q", s, budget, got, want)
			}
			if want == "" && (!strings.HasSuffix(got, "…") || !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) || !utf8.ValidString(got)) {
				t.Errorf("Truncate(%q, %d) = %q, want a prefix and …", s, budget, got)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, s := range samples {
				if got := Truncate(s, 5); !fits(got, 5) {
					t.Errorf("Truncate(%q, 5) = %q", s, got)
				}
			}
		})
	}
	wg.Wait()
}

func ExampleTruncate() {
	fmt.Println(Truncate("Creates an issue. The repository must exist and must not be archived.", 10))
	fmt.Println(Truncate("Creates an issue in a repository that exists", 5))
	// Output:
	// Creates an issue.
	// Creates an issue in…
}

func BenchmarkCount(b *testing.B) {
	text := strings.Repeat("Creates an issue in a GitHub repository; returns the issue's number and its URL (read_only: false).\n", 20)
	referenceCount(b, text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Count(text)
	}
	own := float64(b.Elapsed()) / float64(b.N)
	const rounds = 20
	start := time.Now()
	for range rounds {
		referenceCount(b, text)
	}
	b.ReportMetric(float64(time.Since(start))/rounds/own, "x_baseline")
}

// BenchmarkCountLarge counts a large text with the vocabulary of prose. x_pieces is its speed as a
// multiple of counting each piece anew.
func BenchmarkCountLarge(b *testing.B) {
	text := prose(100_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Count(text)
	}
	own := float64(b.Elapsed()) / float64(b.N)
	const rounds = 20
	start := time.Now()
	for range rounds {
		countAnew(text)
	}
	b.ReportMetric(float64(time.Since(start))/rounds/own, "x_pieces")
}

func BenchmarkCountOneLongPiece(b *testing.B) {
	text := strings.Repeat("abcdefghij", 100_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Count(text)
	}
}

// TestTableIsCurrent keeps the layout of the file and the code together.
func TestTableIsCurrent(t *testing.T) {
	b, err := os.ReadFile("cl100k_base.bin")
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != table || len(b) <= recordsFrom {
		t.Errorf("cl100k_base.bin has %d bytes, the built-in table %d", len(b), len(table))
	}
}
