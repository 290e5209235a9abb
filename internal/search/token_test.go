package search

import (
	"bufio"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// words returns the tokens of s.
func words(s string) []string {
	var out []string
	a := analyzer{emit: func(tok []byte) { out = append(out, string(tok)) }}
	a.text(s)
	return out
}

func TestTokens(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", ""},
		{" \t\n.,;-_/", ""},
		{"Read the file", "read the file"},
		{"read_file-name.of/path", "read file name of path"},
		{"readFile", "read file readfile"},
		{"HTTPServer", "http server httpserver"},
		{"YouTube", "you tube youtube"},
		{"covid19", "covid 19 covid19"},
		{"OAuth2Token", "o auth 2 token oauth2token"},
		{"user's files don't", "user s files don t"},
		{"user’s", "user s"},
		{"’tis 'quoted'", "tis quoted"},
		{"Éclair naïve Łódź", "eclair naive łodz"},
		{"ＦＩＬＥ", "file"},
		{"Über-Straße", "uber straße"},
		{"прогнозПогоды", "прогноз погоды прогнозпогоды"},
		{"検索", "検索"},
		{"番組検索", "番組 組検 検索"},
		{"検索APIを使う", "検索 api を使 使う"},
		{"水", "水"},
		{"ﾃﾞｰﾀ", "デー ータ"},
		{"हिन्दी", "हिन्दी"},
		{"한국어", "한국 국어"},
		{"a\xffb", "a b"},
		{"٣٤", "٣٤"},
	}
	for _, test := range tests {
		if got := strings.Join(words(test.text), " "); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 1000), strings.Repeat("é", 1000), strings.Repeat("ж", 1000)} {
		for _, w := range words(long) {
			if len(w) > maxToken || !utf8.ValidString(w) {
				t.Errorf("token %q of %d bytes", w, len(w))
			}
		}
	}
}

// TestStem holds words of each step of the algorithm against its published results.
func TestStem(t *testing.T) {
	const vocabulary = `
caresses caress
ponies poni
ties ti
caress caress
cats cat
feed feed
agreed agre
plastered plaster
bled bled
motoring motor
sing sing
conflated conflat
troubled troubl
sized size
hopping hop
tanned tan
falling fall
hissing hiss
fizzed fizz
failing fail
filing file
happy happi
sky sky
relational relat
conditional condit
rational ration
valenci valenc
hesitanci hesit
digitizer digit
conformabli conform
radicalli radic
differentli differ
vileli vile
analogousli analog
vietnamization vietnam
predication predic
operator oper
feudalism feudal
decisiveness decis
hopefulness hope
callousness callous
formaliti formal
sensitiviti sensit
sensibiliti sensibl
triplicate triplic
formative form
formalize formal
electriciti electr
electrical electr
hopeful hope
goodness good
revival reviv
allowance allow
inference infer
airliner airlin
gyroscopic gyroscop
adjustable adjust
defensible defens
irritant irrit
replacement replac
adjustment adjust
dependent depend
adoption adopt
homologou homolog
communism commun
activate activ
angulariti angular
homologous homolog
effective effect
bowdlerize bowdler
probate probat
rate rate
cease ceas
controll control
roll roll
generalizations gener
oscillators oscil
is is
y y
by by
yes ye
`
	lines := bufio.NewScanner(strings.NewReader(strings.TrimSpace(vocabulary)))
	for lines.Scan() {
		word, want, _ := strings.Cut(lines.Text(), " ")
		if got := string(stem([]byte(word))); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func TestAppendStem(t *testing.T) {
	for _, test := range []struct{ token, want string }{{"files", "\x01file"}, {"v2s", "\x01v2s"}, {"検索", "\x01検索"}, {"café", "\x01café"}} {
		if got := string(appendStem([]byte("kept"), []byte(test.token))); got != "kept"+test.want {
			t.Errorf("%s: %q, want %q", test.token, got, "kept"+test.want)
		}
	}
}

func TestGrams(t *testing.T) {
	count := func(s string) int {
		n := 0
		eachGram(padded(nil, s), func(uint32) { n++ })
		return n
	}
	// " ab " has two 3-grams and one 4-gram; " abcd " has four, three and two.
	for s, want := range map[string]int{"a": 1, "ab": 3, "abcd": 9, "検索": 3} {
		if got := count(s); got != want {
			t.Errorf("%q has %d n-grams, want %d", s, got, want)
		}
	}
	seen := map[uint32]bool{}
	eachGram(padded(nil, "abcdefg"), func(h uint32) { seen[h] = true })
	if len(seen) != 7+6+5 {
		t.Errorf("%d different hashes, want 18", len(seen))
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"検", 2, ""}, {"", 0, ""}} {
		if got := cut(test.s, test.n); got != test.want {
			t.Errorf("cut(%q, %d) = %q, want %q", test.s, test.n, got, test.want)
		}
	}
}

// TestSynonyms checks the tables: a word with itself, or a stop word, among its synonyms would be a slip.
func TestSynonyms(t *testing.T) {
	for name, table := range map[string]synonyms{"verbs": verbSynonyms(), "nouns": nounSynonyms()} {
		for word, others := range table {
			if stopWords()[word[1:]] {
				t.Errorf("%s: %q is a stop word", name, word[1:])
			}
			if slices.Contains(others, word) {
				t.Errorf("%s: %q is its own synonym", name, word[1:])
			}
			for _, o := range others {
				if !slices.Contains(table[o], word) {
					t.Errorf("%s: %q leads to %q and not back", name, word[1:], o[1:])
				}
			}
		}
	}
}
