package search

import (
	"math"
	"testing"
)

// small is a catalog of a few servers whose tools share words.
func small() *Index {
	return New(Options{}).
		With("fs", []Doc{
			{ID: "fs:create_directory", Server: "fs", Name: "create_directory", Description: "Create a directory or make sure that it exists."},
			{ID: "fs:list_directory", Server: "fs", Name: "list_directory", Description: "List what a directory contains."},
			{ID: "fs:delete_file", Server: "fs", Name: "delete_file", Description: "Delete a file."},
		}).
		With("git", []Doc{
			{ID: "git:git_commit", Server: "git", Name: "git_commit", Description: "Record changes to the repository as a commit."},
			{ID: "git:git_log", Server: "git", Name: "git_log", Description: "Show the commits of the repository."},
			{ID: "git:log", Server: "git", Name: "log", Description: "Show the commits of the repository."},
		}).
		With("big", []Doc{
			{ID: "big:issue_create_0", Server: "big", Name: "issue_create_0", Description: "Create an issue. Create issues in a tracker."},
			{ID: "big:issue_create_1", Server: "big", Name: "issue_create_1", Description: "Create an issue. Create issues in a tracker."},
			{ID: "big:issue_create_2", Server: "big", Name: "issue_create_2", Description: "Create an issue. Create issues in a tracker."},
		}).
		With("github", []Doc{
			{ID: "github:create_issue", Server: "github", Name: "create_issue", Description: "Open a new one in a repository."},
			{ID: "github:closeIssue", Server: "github", Name: "closeIssue", Description: "Close one in a repository."},
		})
}

func first(t *testing.T, ix *Index, query string) string {
	t.Helper()
	hits := ix.Search(query, 5)
	if len(hits) == 0 {
		t.Fatalf("%q has no hits", query)
	}
	return hits[0].ID
}

func TestFirstHit(t *testing.T) {
	ix := small()
	for query, want := range map[string]string{
		// An exact name is first, whatever else matches and however it is written.
		"create_issue":        "github:create_issue",
		"create issue":        "github:create_issue",
		"github create_issue": "github:create_issue",
		"close issue":         "github:closeIssue",
		"issue_create_1":      "big:issue_create_1",
		// What people say instead of a tool's words.
		"make a new folder":          "fs:create_directory",
		"what is in this folder":     "fs:list_directory",
		"get rid of a file":          "fs:delete_file",
		"last commits in the repo":   "git:log",
		"commit my changes":          "git:git_commit",
		"which commits are new":      "git:log",
		"please could you commit it": "git:git_commit",
	} {
		if got := first(t, ix, query); got != want {
			t.Errorf("%q: the first is %s, want %s", query, got, want)
		}
	}
}

func TestEffectOfAnnotations(t *testing.T) {
	docs := func(effect Effect) []Doc {
		return []Doc{
			{ID: "open", Server: "a", Name: "open_orders", Description: "Orders of a customer.", Effect: effect},
			{ID: "orders", Server: "a", Name: "orders_of", Description: "Orders, of any customer there is or was."},
		}
	}
	score := func(effect Effect) float64 {
		for _, h := range New(Options{}).With("a", docs(effect)).Search("which orders are open", 5) {
			if h.ID == "open" {
				return h.Score
			}
		}
		return 0
	}
	if reads, acts := score(EffectReads), score(EffectUnknown); reads <= acts {
		t.Errorf("a question scores %v for a tool that only reads and %v for one whose name acts", reads, acts)
	}
}

func TestTwinsTakeOnePlace(t *testing.T) {
	ix := small()
	hits := ix.Search("show the commits", 5)
	for _, h := range hits {
		if h.ID == "git:git_log" {
			t.Errorf("git_log stands next to log: %v", hits)
		}
	}
	if got := first(t, ix, "git_log"); got != "git:log" && got != "git:git_log" {
		t.Errorf("the name of a twin finds %s", got)
	}
	// A server without such a pair keeps both of two tools with one last word.
	two := New(Options{}).With("a", []Doc{{ID: "1", Server: "a", Name: "x_log"}, {ID: "2", Server: "a", Name: "log"}})
	if hits := two.Search("log", 5); len(hits) != 2 {
		t.Errorf("x_log of server a hides log: %v", hits)
	}
}

func TestIntent(t *testing.T) {
	for query, want := range map[string]intent{
		"delete the file":                  intentAct,
		"please could you delete the file": intentAct,
		"get rid of the file":              intentAct,
		"what was deleted":                 intentRead,
		"show me the commits":              intentRead,
		"list pods":                        intentRead,
		"pod logs":                         intentAny,
		"commits of Anna":                  intentAny,
		"":                                 intentAny,
	} {
		var r reader
		r.reset()
		a := analyzer{emit: func(tok []byte) { r.word(tok) }}
		a.text(query)
		if got := r.intent(); got != want {
			t.Errorf("%q: intent %d, want %d", query, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	ix := small()
	for _, c := range []struct {
		query, upstream, id string
		low, high           float64
	}{
		{"delete a file", "fs", "fs:delete_file", 1, 1},
		{"remove the folder", "fs", "fs:create_directory", .2, .7},
		{"book a flight to Rome", "fs", "fs:delete_file", 0, .3},
		{"", "fs", "fs:delete_file", 0, 0},
		{"delete a file", "fs", "none", 0, 0},
		{"delete a file", "none", "fs:delete_file", 0, 0},
	} {
		if got := ix.Fit(c.query, c.upstream, c.id).Share; got < c.low || got > c.high {
			t.Errorf("Fit(%q, %s) = %.2f, want %.2f to %.2f", c.query, c.id, got, c.low, c.high)
		}
	}
}

// TestExplainDoc: the shares of the fields add up to the share of the word, and the match says what
// the term is to the word.
func TestExplainDoc(t *testing.T) {
	docs := []Doc{
		{ID: "fs:delete_file", Name: "delete_file", Description: "Deletes a file or a folder from the disk.", Params: []Param{{Name: "path", Description: "the file to delete"}}},
		{ID: "fs:read_file", Name: "read_file", Description: "Reads a file.", About: "Works with your documents."},
	}
	ix := New(Options{}).With("fs", docs)
	x := ix.ExplainDoc(t.Context(), "remove files documents", nil, docs[0])
	if x.Rank != 1 || x.Embedded || len(x.Words) != 3 {
		t.Fatalf("ExplainDoc = %+v", x)
	}
	remove, files, documents := x.Words[0], x.Words[1], x.Words[2]
	if remove.Match != matchSynonym || remove.Through != "delete" || files.Match != matchForm {
		t.Errorf("remove: %+v, files: %+v", remove, files)
	}
	if documents.Share > 0 && documents.Match == matchWord {
		t.Errorf("documents: %+v", documents)
	}
	for _, w := range x.Words {
		sum := 0.0
		for _, f := range w.Fields {
			sum += f.Share
		}
		if math.Abs(sum-w.Share) > 1e-6 {
			t.Errorf("%s: the fields have %v of %v", w.Word, sum, w.Share)
		}
	}
	if len(files.Fields) != 3 || files.Fields[0].Field != "name" || files.Fields[0].Weight != 3 {
		t.Errorf("the fields of files: %+v", files.Fields)
	}
	if x := ix.ExplainDoc(t.Context(), "documents", nil, docs[1]); len(x.Words[0].Fields) != 1 || x.Words[0].Fields[0].Field != "about" || x.Words[0].Match != matchWord && x.Words[0].Match != matchForm {
		t.Errorf("a word of the server: %+v", x)
	}
	if x := ix.ExplainDoc(t.Context(), "remove", nil, Doc{ID: "none"}); x.Rank != 0 || len(x.Words) != 1 || x.Words[0].Fields != nil {
		t.Errorf("a document that is not there: %+v", x)
	}
}

func TestExplain(t *testing.T) {
	ix := small()
	x := ix.Explain("make a folder", "fs:create_directory")
	if x.Rank != 1 || x.Score <= 0 || len(x.Words) != 2 {
		t.Fatalf("Explain = %+v", x)
	}
	if w := x.Words[1]; w.Word != "folder" || w.Through == "" || w.Share <= 0 {
		t.Errorf("the word folder: %+v", w)
	}
	if x := ix.Explain("make a folder", "git:log"); x.Rank > 0 && x.Score >= ix.Search("make a folder", 1)[0].Score {
		t.Errorf("a tool of other words: %+v", x)
	}
	if x := ix.Explain("make a folder", "none"); x.Rank != 0 || x.Score != 0 {
		t.Errorf("a tool that is not there: %+v", x)
	}
}
