package result

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// The last lines of a log or of an error are shown, and the handle stands once.
func TestHeldTextShowsItsEnds(t *testing.T) {
	log := numbered("2026-11-01 INFO request # served", 4999, "\n") + "\nTraceback: ValueError: bad port\n"
	for _, result := range []string{textResult(log), strings.TrimSuffix(textResult(log), "}") + `,"isError":true}`, textResult(strings.ReplaceAll(log, "\n", "\r\n"))} {
		s, _, _ := shape(t, Firewall{}, result, FormatText)
		shown := s.Content[0].Text
		for _, part := range []string{"0:2026-11-01 INFO request 0 served\n", "\n9:2026-11-01 INFO request 9 served\n… 4985 lines …\n4995:", "\n4999:Traceback: ValueError: bad port\n", `{"type":"lines","start":10,"end":50}`} {
			if !strings.Contains(shown, part) {
				t.Errorf("%q is not in\n%s", part, shown)
			}
		}
		if n := strings.Count(shown, s.env.Artifacts[0].Handle); n != 1 {
			t.Errorf("the handle stands %d times in\n%s", n, shown)
		}
	}
}

func TestHeldTextShowsTheEndOfALongLastLine(t *testing.T) {
	s, _, _ := shape(t, Firewall{}, textResult(numbered("line #", 500, "\n")+"\n"+strings.Repeat("x", 900)+" the end"), FormatText)
	if !strings.Contains(s.Content[0].Text, "\n500:…x") || !strings.Contains(s.Content[0].Text, "x the end\n") {
		t.Error(s.Content[0].Text)
	}
}

// Facts with one name are told once, and only where the lines do not show them.
func TestFactsAreNotRepeated(t *testing.T) {
	list := numbered("- item: value #", 300, "\n")
	s, _, _ := shape(t, Firewall{}, textResult(list), FormatText)
	if n := strings.Count(s.Content[0].Text, "item: value"); n > headLines+tailLines {
		t.Errorf("%d lines in\n%s", n, s.Content[0].Text)
	}
	s, _, _ = shape(t, Firewall{}, textResult(strings.Repeat("A sentence. ", 30)+"\n\n"+list+"\nowner: ann\n"+strings.Repeat("more\n", 99)), FormatText)
	if n := strings.Count(s.Content[0].Text, "item: value"); n > 1+tailLines {
		t.Errorf("%d lines in\n%s", n, s.Content[0].Text)
	}
}

func TestHeldMarkdownShowsItsHeadings(t *testing.T) {
	var doc strings.Builder
	for i := range 8 {
		fmt.Fprintf(&doc, "# Chapter %d\n\n%s\n\n## Notes\n\n- item: value\n\n", i, strings.Repeat("words ", 100))
	}
	s, _, _ := shape(t, Firewall{}, textResult(doc.String()), FormatText)
	for _, part := range []string{"\n0: # Chapter 0\n2: # Chapter 1\n", "14: # Chapter 7", "8 headings more", `{"type":"section","heading":0}`} {
		if !strings.Contains(s.Content[0].Text, part) {
			t.Errorf("%q is not in\n%s", part, s.Content[0].Text)
		}
	}
}

// A secret is removed from the ends of a text as from its summary, also one that is cut.
func TestHeldTextShowsNoSecret(t *testing.T) {
	redact := func(s string) string { return strings.ReplaceAll(s, "secret\nover two lines", "[redacted]") }
	text := "a\nsecret\nover two lines\n" + numbered("line #", 500, "\n") + "\nsecret\nover two lines\nlast\n"
	s, _, _ := shape(t, Firewall{Redact: redact}, textResult(text), FormatText)
	if shown := s.Content[0].Text; strings.Contains(shown, "secret") || strings.Contains(shown, "two lines") || !strings.Contains(shown, ":last\n") {
		t.Error(shown)
	}
}

// A result is held back only where that saves: not for a few characters over the threshold, nor for
// tokens that the agent asked for.
func TestHeldBackOnlyWhereThatSaves(t *testing.T) {
	words := func(s string) int { return len(strings.Fields(s)) }
	for _, tt := range []struct {
		f    Firewall
		text string
		held bool
	}{
		{Firewall{}, strings.Repeat("a", 2001), false},
		{Firewall{}, strings.Repeat("a", 3000), false},
		{Firewall{}, strings.Repeat("a", 3001), true},
		{Firewall{ThresholdChars: 20_000}, strings.Repeat("a", 21_000), false},
		{Firewall{ThresholdChars: 20_000}, strings.Repeat("a", 21_001), true},
		{Firewall{PassTokens: 8000, CountTokens: words}, strings.Repeat("word ", 8000), false},
		{Firewall{PassTokens: 8000, CountTokens: words}, strings.Repeat("word ", 8001), true},
		{Firewall{CountTokens: words}, strings.Repeat("word ", 8000), true},
	} {
		if s, _, _ := shape(t, tt.f, textResult(tt.text), FormatText); s.env.Stats.Triggered != tt.held {
			t.Errorf("%d characters, %d words: held back is %t", utf8.RuneCountInString(tt.text), words(tt.text), s.env.Stats.Triggered)
		}
	}
}
