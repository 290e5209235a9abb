package search

import (
	"slices"
	"strings"
	"testing"
)

// story returns the words of the clauses of a query that are its story, and "-" if it has no clauses.
func story(query string) string {
	all := clauses(query)
	if all == nil {
		return "-"
	}
	var out []string
	for _, c := range all {
		if c.role == roleStory {
			out = append(out, strings.TrimSpace(c.text))
		}
	}
	return strings.Join(out, " | ")
}

func TestClauses(t *testing.T) {
	for query, want := range map[string]string{
		// Orders, questions and wishes with a story.
		"The office is closed next week, lock the front door and the window.":                  "The office is closed next week",
		"Please restart the web server, because the deploy of this morning broke it.":          "because the deploy of this morning broke it.",
		"My boss comes on Monday and I have no numbers, so send me the report of the quarter.": "My boss comes on Monday | and I have no numbers",
		"Since Peter left nobody reads his tickets, assign ticket 881 to Laura.":               "Since Peter left nobody reads his tickets",
		"When I go to bed I want it dark, turn off the lamp in the hall.":                      "When I go to bed I want it dark",
		"Make a list of the parts so that the shop can order them tomorrow.":                   "so that the shop can order them tomorrow.",
		"We are late for the train. What is the way to the station from here?":                 "We are late for the train",
		"I'd like to see the notes.txt of yesterday, he says it is important.":                 "he says it is important.",
		"She left. They called twice. Which number does the garage have, and who owns it?":     "She left | They called twice",
		// No story, no request, or too short: nothing is less than the rest.
		"find the cheapest flight to Lisbon, book it, and add it to the calendar": "-",
		"the weather of Berlin, Paris, Rome, Madrid and Vienna on Sunday evening": "-",
		"we had rain, they had snow, and nobody knew when the train would go":     "-",
		"it is cold, lock the door": "-",
		"update version 2.1.0 of the package at github.com/a/b, file x.y, with the new key": "-",
		"": "-", "?!.,": "-", ", , , , , , , , , , , , , , , , , , ,": "-",
	} {
		if got := story(query); got != want && got+"." != want {
			t.Errorf("%q has the story %q, want %q", query, got, want)
		}
	}
}

// TestRequestCounts: the words of the story count less, those of the request give the act and stay in their order.
func TestRequestCounts(t *testing.T) {
	ix := New(Options{}).With("a", []Doc{{ID: "x", Name: "x"}})
	ix.Prepare()
	s := ix.view.borrow()
	defer s.giveBack()
	weights := func(query string) map[string]float32 {
		s.parse(query)
		m := map[string]float32{}
		for _, w := range s.words {
			m[string(w.raw)] = w.weight
		}
		return m
	}
	m := weights("The invoice of the garage was wrong again, delete the invoice 12 from the ledger.")
	if m["invoice"] != 1 || m["ledger"] != 1 || m["garage"] != s.v.t.story || m["wrong"] != s.v.t.story || s.reader.kinds&kindDelete == 0 {
		t.Errorf("%v, kinds %b", m, s.reader.kinds)
	}
	var order []string
	for _, w := range s.words {
		order = append(order, string(w.raw))
	}
	if i, j := slices.Index(order, "garage"), slices.Index(order, "delete"); i < 0 || i > j {
		t.Errorf("the order is %q", order)
	}
	// "it" is in the story.
	if m := weights("Yesterday we closed the sprint and the branch of Tom is approved, merge it."); m["branch"] != 1 || s.reader.kinds != kinds()["merge"] {
		t.Errorf("%v, kinds %b", m, s.reader.kinds)
	}
	// A story of more words than a query may have leaves room for the request.
	long := "We " + strings.Repeat("saw a1 ", 1)
	for i := range 2 * maxWords {
		long += "x" + strings.Repeat("y", i%60) + string(rune('a'+i%26)) + " "
	}
	if m := weights(long + "was there, open the garage"); m["garage"] != 1 || len(s.words) != maxWords {
		t.Errorf("%d words, garage %v", len(s.words), m["garage"])
	}
}

func FuzzClauses(f *testing.F) {
	f.Add("The office is closed next week, lock the front door and the window.")
	f.Add("so so so so so so so so so so so so so so so ,, so that . it ? -- ’’ ' é Ünï")
	f.Fuzz(func(t *testing.T, query string) {
		end := 0
		for _, c := range clauses(query) {
			if c.at < end || !strings.HasPrefix(query[c.at:], c.text) || len(c.words) == 0 {
				t.Fatalf("%q at %d, after %d", c.text, c.at, end)
			}
			end = c.at + len(c.text)
		}
	})
}
