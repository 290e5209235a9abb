package search

import (
	"fmt"
	"reflect"
	"testing"
)

// crowd returns an index over so many documents, ten for each upstream, and its documents.
func crowd(docs int) (*Index, map[string][]Doc) {
	ix, all := New(Options{}), map[string][]Doc{}
	verbs, nouns := []string{"list", "create", "delete", "export", "watch"}, []string{"issue", "invoice", "branch", "ticket", "metric", "contact", "order"}
	for i := range docs / 10 {
		name := fmt.Sprintf("server%04d", i)
		for j := range 10 {
			verb, noun := verbs[j%len(verbs)], nouns[(i+j)%len(nouns)]
			all[name] = append(all[name], Doc{ID: fmt.Sprintf("%s:%s_%s_%d", name, verb, noun, j), Name: verb + "_" + noun,
				Description: fmt.Sprintf("%s the %ss of project %d", verb, noun, i)})
		}
		ix = ix.With(name, all[name])
	}
	ix.Prepare()
	return ix, all
}

var crowdQueries = []string{"list issues", "export an invoice of project 17", "isue tickt", "create", "delete the orders of project 3"}

func sameHits(t *testing.T, got, want *Index) {
	t.Helper()
	for _, query := range crowdQueries {
		if got, want := got.Search(query, 20), want.Search(query, 20); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
		hit := want.Search(query, 1)[0].ID
		if got, want := got.Explain(query, hit), want.Explain(query, hit); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: explained as %v, want %v", query, got, want)
		}
	}
}

// A change that leaves all statistics as they are leaves all hits and scores, too, though the new
// view shares the data of the old one.
func TestDeltaFindsTheSame(t *testing.T) {
	ix, all := crowd(deltaFrom + 10)
	next := ix.With("server0003", all["server0003"]).With("server0017", all["server0017"])
	next.Prepare()
	if next.view.delta == nil {
		t.Fatal("the view was made anew")
	}
	sameHits(t, next, ix)
	odd := func(upstream, _ string) bool { return upstream[len(upstream)-1]%2 == 1 }
	sameHits(t, next.Only(odd), ix.Only(odd))
	if got, want := next.Fit("export invoice", "server0003", all["server0003"][3].ID).Share, ix.Fit("export invoice", "server0003", all["server0003"][3].ID).Share; got != want {
		t.Errorf("fits by %v, want %v", got, want)
	}
}

// A delta has the documents of its index and no others, by words that only they have as well.
func TestDeltaOfOtherDocuments(t *testing.T) {
	ix, all := crowd(deltaFrom + 10)
	gone := all["server0005"][0].ID
	next := ix.With("server0005", []Doc{{ID: "kayak", Name: "paddle_kayak", Description: "Paddle a kayak across the fjord."}}).
		Without("server0006").With("zebra", []Doc{{ID: "zebra", Name: "list_zebras", Description: "List the zebras of a project."}})
	next.Prepare()
	if next.view.delta == nil {
		t.Fatal("the view was made anew")
	}
	for query, want := range map[string]string{"kayak": "kayak", "kayakers on fjords": "kayak", "paddling": "kayak", "zebra": "zebra"} {
		if hits := next.Search(query, 3); len(hits) == 0 || hits[0].ID != want {
			t.Errorf("%q: %v, want %s first", query, hits, want)
		}
	}
	for _, hit := range next.Search("list create delete export watch project", next.Len()+100) {
		if upstream := hit.ID[:min(len(hit.ID), 10)]; hit.ID == gone || upstream == "server0006" || upstream == "server0005" {
			t.Fatalf("%s is found, which is not there", hit.ID)
		}
	}
	if hits := ix.Search("kayak fjord", 3); len(hits) > 0 && hits[0].ID == "kayak" {
		t.Error("the earlier index has changed")
	}
	if fit := next.Fit("kayak", "server0005", "kayak").Share; fit != 1 {
		t.Errorf("fits by %v, want 1", fit)
	}
	// Many searches share their working memory with those of the earlier view.
	for range 3 {
		sameHits(t, ix, ix)
		next.Search("list issues", 5)
	}
}

// After many changes a view is made of all documents, so weights do not drift for ever.
func TestDeltaEnds(t *testing.T) {
	ix, all := crowd(deltaFrom + 10)
	whole := 0
	for i := range 40 {
		name := fmt.Sprintf("server%04d", i)
		ix = ix.With(name, append(all[name], Doc{ID: name + ":extra", Name: "fetch_extra", Description: "Fetch something of project 17."}))
		if ix.Prepare(); ix.view.delta == nil {
			whole++
		}
	}
	if whole == 0 || whole > 10 {
		t.Errorf("%d of 40 views were made of all segments", whole)
	}
	small, _ := crowd(1000)
	if next := small.With("server0001", all["server0001"]); true {
		if next.Prepare(); next.view.delta != nil {
			t.Error("a view of few documents is no exact one")
		}
	}
}

// Changes that come before the last one is prepared share the whole view that one of them has made.
func TestWholeOfLateIndex(t *testing.T) {
	old, all := crowd(deltaFrom + 10)
	change := func(ix *Index, i int) *Index {
		name := fmt.Sprintf("server%04d", i)
		return ix.With(name, append(all[name], Doc{ID: name + ":extra", Name: "fetch_extra", Description: "Fetch something of project 17."}))
	}
	old.Prepare()
	ix := old
	for i := range 30 {
		ix = change(ix, i)
	}
	later := change(ix, 31)
	if ix.Prepare(); ix.view.delta != nil {
		t.Fatal("the change is too small for this test")
	}
	if later.Prepare(); later.view.delta == nil || later.view.delta.whole != ix.view {
		t.Error("a later index does not share the view of an earlier one that was prepared after it was made")
	}
	sameHits(t, later, later)
	if other := old.Join(New(Options{}).With("own", []Doc{{ID: "own:tool", Name: "tool"}})); other.whole == old.whole {
		t.Error("an index with the documents of one principal shares its view with all others")
	}
}
