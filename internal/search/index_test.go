package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ids returns the ids of the best k hits and checks what holds for every result.
func ids(t *testing.T, ix *Index, query string, k int) []string {
	t.Helper()
	hits := ix.Search(query, k)
	if len(hits) > max(k, 0) {
		t.Errorf("%q: %d hits, asked for %d", query, len(hits), k)
	}
	out := make([]string, 0, len(hits))
	for i, h := range hits {
		if !(h.Score > 0) {
			t.Errorf("%q: %s scores %v", query, h.ID, h.Score)
		}
		if i > 0 && (hits[i-1].Score < h.Score || hits[i-1].Score == h.Score && hits[i-1].ID > h.ID) {
			t.Errorf("%q: %v stands before %v", query, hits[i-1], h)
		}
		out = append(out, h.ID)
	}
	return out
}

// named makes documents of names alone.
func named(names ...string) []Doc {
	var docs []Doc
	for _, n := range names {
		docs = append(docs, Doc{ID: n, Name: n})
	}
	return docs
}

// TestSearch asks small catalogs for what a person would expect of each rule of the ranking.
func TestSearch(t *testing.T) {
	tests := []struct {
		name  string
		docs  []Doc
		query string
		want  string // ids in order, by space
	}{
		{"name", named("read_file", "send_mail"), "file", "read_file"},
		{"stem", named("read_file", "send_mail"), "sending mails", "send_mail"},
		{"plural breaks the tie", named("get_invoice", "get_invoices"), "invoices", "get_invoices get_invoice"},
		{"singular breaks the tie", named("get_invoice", "get_invoices"), "invoice", "get_invoice get_invoices"},
		{"snake, kebab, dot, slash", named("alpha_file", "beta-file", "delta.file", "gamma/file", "e"), "file", "beta-file delta.file alpha_file gamma/file"},
		{"camelCase", named("listOpenIssues", "HTTPServerStart"), "open issues", "listOpenIssues"},
		{"acronym", named("listOpenIssues", "HTTPServerStart"), "server", "HTTPServerStart"},
		{"camelCase as one word", named("YouTubeSearch", "mail"), "youtube", "YouTubeSearch"},
		{"case", named("READ_FILE", "x"), "Read File", "READ_FILE"},
		{"name before description", []Doc{{ID: "a", Name: "x", Description: "Counts rows."}, {ID: "b", Name: "rows"}}, "rows", "b a"},
		{"description before parameters", []Doc{{ID: "a", Name: "x", Params: []Param{{Name: "rows", Description: ""}}}, {ID: "b", Name: "y", Description: "rows"}}, "rows", "b a"},
		{"parameter name before its text", []Doc{{ID: "a", Name: "x", Params: []Param{{Name: "p", Description: "rows"}}}, {ID: "b", Name: "y", Params: []Param{{Name: "rows", Description: ""}}}}, "rows", "b a"},
		{"tags", []Doc{{ID: "a", Name: "x", Tags: []string{"billing"}}, {ID: "b", Name: "y"}}, "billing", "a"},
		{"title", []Doc{{ID: "a", Name: "x", Title: "Water levels"}, {ID: "b", Name: "y"}}, "water", "a"},
		{"server", []Doc{{ID: "a", Server: "github", Name: "issues"}, {ID: "b", Server: "gitlab", Name: "issues"}}, "github issues", "a b"},
		{"short before long", []Doc{{ID: "a", Name: "x", Description: "tides " + strings.Repeat("and many more words of another kind ", 9)}, {ID: "b", Name: "y", Description: "tides today"}}, "tides", "b a"},
		{"verb synonym", named("delete_scan", "upload_page"), "erase", "delete_scan"},
		{"word before its synonym", named("delete_scan", "erase_scan"), "erase scan", "erase_scan delete_scan"},
		{"short form", named("query_database", "upload_page"), "db", "query_database"},
		{"stop words say nothing", named("the_tool", "read"), "could you please read it", "read"},
		{"nothing but stop words", named("whoami", "who_is", "read"), "who is", "who_is"},
		{"typing error", named("irrigation_start", "send_mail"), "irrigaton", "irrigation_start"},
		{"neighbours", []Doc{{ID: "a", Name: "x", Description: "issue pull, comment request"}, {ID: "b", Name: "y", Description: "pull request, issue comment"}}, "pull request", "b a"},
		{"equal scores by id", []Doc{{ID: "c", Name: "f"}, {ID: "a", Name: "f"}, {ID: "b", Name: "f"}}, "f", "a b c"},
		{"Chinese", named("番組検索", "録画予約"), "録画を予約する", "録画予約"},
		{"one character", named("読む", "書く"), "書", ""},
		{"Japanese kana with marks", named("データベース", "メール"), "ﾃﾞｰﾀﾍﾞｰｽ", "データベース"},
		{"Korean", named("일정조회", "파일삭제"), "일정", "일정조회"},
		{"Thai", named("ค้นหาไฟล์", "ส่งอีเมล"), "ค้นหา", "ค้นหาไฟล์"},
		{"Hindi", named("मौसम", "किताब"), "मौसम", "मौसम"},
		{"Cyrillic in another case", named("прогноз_погоды", "почта"), "ПРОГНОЗ", "прогноз_погоды"},
		{"Greek", named("καιρός", "αρχείο"), "ΚΑΙΡΟΣ", "καιρός"},
		{"accents", named("réservation", "météo"), "reservation meteo", "réservation météo"},
		{"nothing fits", named("read_file", "send_mail"), "zzzzq", ""},
		{"no word", named("read_file"), " ?! ", ""},
		{"empty", named("read_file"), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ix := New(Options{}).With("up", test.docs)
			if got := strings.Join(ids(t, ix, test.query, 10), " "); got != test.want {
				t.Errorf("%q finds %q, want %q", test.query, got, test.want)
			}
		})
	}
}

func TestSearchBounds(t *testing.T) {
	ix := New(Options{}).With("up", named("read_a", "read_b", "read_c"))
	for k, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 3: 3, 1 << 40: 3} {
		if got := len(ids(t, ix, "read", k)); got != want {
			t.Errorf("k=%d: %d hits, want %d", k, got, want)
		}
	}
	if got := ids(t, ix, strings.Repeat("x ", maxQuery)+"read", 3); len(got) != 0 {
		t.Errorf("a word behind the bound of the query finds %q", got)
	}
	var many strings.Builder
	for i := range maxWords {
		fmt.Fprintf(&many, "w%dw ", i)
	}
	if got := ids(t, ix, many.String()+"read", 3); len(got) != 0 {
		t.Errorf("a word behind the bound of distinct words finds %q", got)
	}
	long := Doc{ID: "long", Name: "x", Description: strings.Repeat("many ", maxText) + "hidden", Tags: make([]string, maxTags+1), Params: make([]Param, maxParams+1)}
	long.Tags[maxTags], long.Params[maxParams].Name = "obscured", "veiled"
	ix = New(Options{}).With("up", []Doc{long})
	for _, query := range []string{"hidden", "obscured", "veiled"} {
		if got := ids(t, ix, query, 3); len(got) != 0 {
			t.Errorf("text behind a bound is found by %q", query)
		}
	}
	if got := ids(t, New(Options{}), "read", 3); len(got) != 0 {
		t.Errorf("an empty index finds %q", got)
	}
}

// TestServerPrior sees a good server lift its tools, and not so far that a better tool of another server is cut.
func TestServerPrior(t *testing.T) {
	docs := []Doc{
		{ID: "1", Server: "mail", Name: "mail_send", Description: "Sends a mail."},
		{ID: "2", Server: "mail", Name: "mail_search", Description: "Searches in mail."},
		{ID: "3", Server: "mail", Name: "attachment_size", Description: "Size of an attachment."},
		{ID: "4", Server: "other", Name: "attachment_size", Description: "Size of an attachment."},
		{ID: "5", Server: "other", Name: "sundial", Description: "Shadows."},
	}
	ix := New(Options{}).With("up", docs)
	got := ids(t, ix, "search mail for an attachment", 10)
	if at3, at4 := slices.Index(got, "3"), slices.Index(got, "4"); at3 < 0 || at4 < 0 || at3 > at4 {
		t.Errorf("order %q: 3 is of the better server and equal otherwise, and 4 must stay", got)
	}
	if slices.Contains(got, "5") {
		t.Errorf("order %q: 5 shares nothing with the query", got)
	}
	if got := ids(t, ix, "sundial of the mail server", 10); got[0] != "5" {
		t.Errorf("order %q: the prior cut the best tool", got)
	}
}

// TestNamed checks the lift by the share of the name: all of it for the first, idf-weighted less for the second.
// TestAboutIsSearched: the words that a server says of itself find its tools, behind those whose own
// words match.
func TestAboutIsSearched(t *testing.T) {
	about := "Keeps the encyclopedia of the company."
	ix := New(Options{}).
		With("wiki", []Doc{{ID: "w1", Name: "get_page", About: about}, {ID: "w2", Name: "list_pages", About: about}}).
		With("web", []Doc{{ID: "x1", Name: "open_tab"}, {ID: "x2", Name: "encyclopedia"}})
	var got []string
	for _, hit := range ix.Search("encyclopedia", 5) {
		got = append(got, hit.ID)
	}
	if !slices.Equal(got, []string{"x2", "w1", "w2"}) {
		t.Errorf("found %q", got)
	}
}

func TestNamed(t *testing.T) {
	docs := named("topic_list", "topic_list_archive")
	score := func(x float32) map[string]float64 {
		tuning := defaultTuning()
		tuning.named = x
		out := map[string]float64{}
		for _, h := range New(Options{tuning: tuning}).With("up", docs).Search("the list of topics", 2) {
			out[h.ID] = h.Score
		}
		return out
	}
	without, with := score(0), score(.25)
	if got := with["topic_list"] - without["topic_list"]; math.Abs(got-.25) > 1e-6 {
		t.Errorf("topic_list is lifted by %v, want .25", got)
	}
	if got := with["topic_list_archive"] - without["topic_list_archive"]; got < .01 || got > .2 {
		t.Errorf("topic_list_archive is lifted by %v, want a part of .25", got)
	}
}

func TestIndexIsImmutable(t *testing.T) {
	empty := New(Options{})
	one := empty.With("a", named("read_file"))
	two := one.With("b", named("read_page"))
	changed := two.With("a", named("read_book"))
	gone := changed.Without("b")
	for _, test := range []struct {
		name string
		ix   *Index
		want string
	}{
		{"empty", empty, ""}, {"one", one, "read_file"}, {"two", two, "read_file read_page"},
		{"changed", changed, "read_book read_page"}, {"gone", gone, "read_book"},
		{"emptied", changed.With("a", nil), "read_page"},
	} {
		if got := strings.Join(ids(t, test.ix, "read", 10), " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if got, want := test.ix.Len(), len(strings.Fields(test.want)); got != want {
			t.Errorf("%s: Len is %d, want %d", test.name, got, want)
		}
	}
	if gone.Without("never") != gone {
		t.Error("taking away nothing made a new index")
	}
	for _, s := range one.segments {
		if !slices.Contains(two.segments, s) {
			t.Error("adding b built a again")
		}
	}
}

func TestServerDefaultsToUpstream(t *testing.T) {
	ix := New(Options{}).With("github", named("issues")).With("gitlab", named("issues_"))
	if got := ids(t, ix, "gitlab issues", 1); got[0] != "issues_" {
		t.Errorf("best is %q", got)
	}
}

// TestOrderDoesNotMatter builds one catalog in several orders and cuts: hits and scores must be the same to the last bit.
func TestOrderDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	docs := catalog(300)
	queries := []string{"list open invoices of a customer", "send", "creating reports for the harbour", "x y z", docs[7].Description}
	want := map[string][]Hit{}
	for round := range 6 {
		r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
		ix := New(Options{})
		parts := 1 + round*4
		for i := range parts {
			ix = ix.With(fmt.Sprint("up", (i*11)%parts), docs[i*len(docs)/parts:(i+1)*len(docs)/parts])
		}
		for _, q := range queries {
			hits := ix.Search(q, 20)
			if round == 0 {
				if len(hits) == 0 && q != "x y z" {
					t.Fatalf("%q finds nothing", q)
				}
				want[q] = hits
			} else if !reflect.DeepEqual(hits, want[q]) {
				t.Errorf("%q in order %d: %v, want %v", q, round, hits, want[q])
			}
		}
	}
}

// TestNothingOfTheCallerIsKept changes what was handed in: the strings of a Doc may be slices of a buffer with a life of its own.
func TestNothingOfTheCallerIsKept(t *testing.T) {
	docs := []Doc{{ID: "a", Name: "read", Tags: []string{"x"}, Params: []Param{{Name: "p", Description: ""}}}}
	ix := New(Options{}).With("up", docs)
	docs[0].ID, docs[0].Name, docs[0].Tags[0], docs[0].Params[0].Name = "b", "write", "y", "q"
	for _, query := range []string{"read", "x", "p"} {
		if got := ids(t, ix, query, 1); len(got) != 1 || got[0] != "a" {
			t.Errorf("%q finds %q", query, got)
		}
	}
}

// TestConcurrentUse is for the race detector: searches run while others derive indexes from the same one.
func TestConcurrentUse(t *testing.T) {
	base := New(Options{}).With("a", catalog(200))
	want := New(Options{}).With("a", catalog(200)).Search("list invoices", 5)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if got := base.Search("list invoices", 5); !reflect.DeepEqual(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
				other := base.With(fmt.Sprint(i), named("list_invoices_"+fmt.Sprint(i)))
				if got := other.Search("list invoices", 300); len(got) <= 5 {
					t.Errorf("%d hits", len(got))
				}
			}
		})
	}
	wg.Wait()
}

// TestFootprint bounds what an index of 500 tools keeps: a part of the 40 MB that a whole gateway may be resident with.
func TestFootprint(t *testing.T) {
	docs := catalog(500)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	ix := bySegment(docs, 10)
	if len(ix.Search("list invoices", 10)) == 0 {
		t.Error("no hits")
	}
	after := heap()
	runtime.KeepAlive(docs)
	runtime.KeepAlive(ix)
	if kept := int64(after) - int64(before); kept > 4<<20 {
		t.Errorf("an index of %d documents keeps %d KB", ix.Len(), kept>>10)
	} else {
		t.Logf("an index of %d documents keeps %d KB", ix.Len(), kept>>10)
	}
}

// TestAllocations holds a search to its result and what the pool of scratch memory may cost when it has been emptied.
func TestAllocations(t *testing.T) {
	ix := bySegment(catalog(500), 10)
	allocs := testing.AllocsPerRun(100, func() { ix.Search("list the open invoices of a customer", 10) })
	if allocs > 20 {
		t.Errorf("%v allocations a search", allocs)
	}
}

// catalog makes n documents of 25 tools per server from a fixed vocabulary with frequent and rare words.
func catalog(n int) []Doc {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	verbs := strings.Fields("list get create delete update search send export import assign close open check run stop")
	nouns := strings.Fields("invoices tickets letters ferries sensors users files reports messages orders harbours beds payments scans tides pages branches clusters images songs")
	var words []string
	for range max(200, n) {
		w := make([]byte, 3+r.IntN(7))
		for i := range w {
			w[i] = "etaoinshrdlucmfw"[r.IntN(16)]
		}
		words = append(words, string(w))
	}
	pick := func() string { f := r.Float64(); return words[int(f*f*f*float64(len(words)))] }
	docs := make([]Doc, n)
	for i := range docs {
		verb, noun := verbs[r.IntN(len(verbs))], nouns[r.IntN(len(nouns))]
		var text strings.Builder
		fmt.Fprintf(&text, "%s %s of a customer", verb, noun)
		for range 5 + r.IntN(40) {
			text.WriteString(" " + pick())
		}
		d := Doc{Server: fmt.Sprintf("server%d", i/25), Name: verb + "_" + noun + "_" + pick(), Description: text.String()}
		d.ID = fmt.Sprintf("%s:%s@%d", d.Server, d.Name, i)
		for range r.IntN(6) {
			d.Params = append(d.Params, Param{Name: pick(), Description: pick() + " " + pick() + " " + pick()})
		}
		docs[i] = d
	}
	return docs
}

func FuzzSearch(f *testing.F) {
	for _, s := range []string{"", "list files", "番組を検索", "a'b’s", "HTTPServer2Go", "\xff\xfe", "é\u0301\u0301", strings.Repeat("ab_", 300), "\x01\x00"} {
		f.Add(s, s)
	}
	base := New(Options{}).With("base", catalog(30))
	f.Fuzz(func(t *testing.T, text, query string) {
		ix := base.With("fuzz", []Doc{{ID: "fuzz", Server: text, Name: text, Description: text, Tags: []string{text}, Params: []Param{{Name: text, Description: text}}}})
		first := ids(t, ix, query, 5)
		if again := ids(t, ix, query, 5); !slices.Equal(first, again) {
			t.Errorf("%q finds %q, then %q", query, first, again)
		}
		if got := ids(t, ix, text, 40); len(words(text)) > 0 && !slices.Contains(got, "fuzz") {
			t.Errorf("the text %q of a document does not find it: %q", text, got)
		}
	})
}

// The documents of a large upstream are indexed when they are first searched, by any of the indexes
// that share them.
func TestLargeUpstream(t *testing.T) {
	docs := make([]Doc, buildLater)
	for i := range docs {
		docs[i] = Doc{ID: fmt.Sprintf("large:%d", i), Server: "large", Name: fmt.Sprintf("get_issue_%d", i), Description: "get one issue"}
	}
	small := []Doc{{ID: "small:pay", Server: "small", Name: "pay_invoice", Description: "pay an invoice"}}
	at := New(Options{}).With("large", docs)
	then := at.With("small", small)
	if !at.Pending() || !then.Pending() || at.Len() != buildLater || then.Len() != buildLater+1 {
		t.Fatal("the documents are indexed already, or not counted")
	}
	var both sync.WaitGroup
	for _, ix := range []*Index{at, then} {
		for range 2 {
			both.Go(func() {
				if hits := ix.Search("issue 77", 1); len(hits) != 1 || hits[0].ID != "large:77" {
					t.Errorf("%v", hits)
				}
			})
		}
	}
	both.Wait()
	if at.Pending() || then.Pending() {
		t.Error("documents are still to be indexed")
	}
	if hits := then.Search("pay an invoice", 1); len(hits) != 1 || hits[0].ID != "small:pay" {
		t.Errorf("%v", hits)
	}
}
