package demo

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestNotesLifeOfANote(t *testing.T) {
	session := overStdio(t, "notes")
	var created note
	call(t, session, "create_note", map[string]any{"title": " Weir ", "text": "a low dam\n", "tags": []string{"Work", "rivers", "work"}}, &created)
	want := note{ID: "n4", Title: "Weir", Text: "a low dam\n", Tags: []string{"rivers", "work"}, Created: "2026-05-04T10:30:00Z"}
	if fmt.Sprint(created) != fmt.Sprint(want) {
		t.Fatalf("created %+v, want %+v", created, want)
	}

	var found resultRows[note]
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"list_notes", nil, "n4 n3 n2 n1"},
		{"list_notes", map[string]any{"limit": 2}, "n4 n3"},
		{"list_notes", map[string]any{"tag": "WORK"}, "n4 n3"},
		{"list_notes", map[string]any{"tag": "nothing"}, ""},
		{"search_notes", map[string]any{"query": "DAM low"}, "n4"},
		{"search_notes", map[string]any{"query": "list"}, "n3 n2"},
		{"search_notes", map[string]any{"query": "low lemons"}, ""},
	} {
		call(t, session, c.tool, c.args, &found)
		ids := []string{}
		for _, n := range found.Result {
			ids = append(ids, n.ID)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s(%v) = %q, want %q", c.tool, c.args, got, c.want)
		}
	}

	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note://n4"})
	if err != nil {
		t.Fatal(err)
	}
	if got := read.Contents[0]; got.Text != "# Weir\n\na low dam\n" || got.MIMEType != "text/markdown" || got.URI != "note://n4" {
		t.Errorf("resource %+v", got)
	}

	var gone deletedNote
	call(t, session, "delete_note", map[string]any{"id": "n4"}, &gone)
	if gone != (deletedNote{Deleted: "n4", Title: "Weir"}) {
		t.Errorf("deleted %+v", gone)
	}
	refused(t, session, "read_note", map[string]any{"id": "n4"}, "list_notes")
	refused(t, session, "delete_note", map[string]any{"id": "n4"}, "no such note")
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note://n4"}); err == nil {
		t.Error("a deleted note can still be read as a resource")
	}
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(resources.Resources) != 3 {
		t.Errorf("%d resources, want the 3 notes left", len(resources.Resources))
	}
}

func TestNotesRefuseWrongArguments(t *testing.T) {
	session := overStdio(t, "notes")
	refused(t, session, "create_note", map[string]any{"title": "no text"}, "text")
	refused(t, session, "create_note", map[string]any{"title": "", "text": "x"}, "title")
	refused(t, session, "create_note", map[string]any{"title": strings.Repeat("t", maxNoteTitle+1), "text": "x"}, "title")
	refused(t, session, "create_note", map[string]any{"title": "t", "text": strings.Repeat("x", maxNoteText+1)}, "text")
	refused(t, session, "create_note", map[string]any{"title": "t", "text": "x", "tags": make([]string, maxNoteTags+1)}, "tags")
	refused(t, session, "create_note", map[string]any{"title": "t", "text": "x", "tags": []string{strings.Repeat("g", maxNoteTag+1)}}, "tags")
	refused(t, session, "list_notes", map[string]any{"limit": 101}, "limit")
}

func TestNotebookIsBounded(t *testing.T) {
	book := newNotebook(fixedNow)
	for range maxNotes {
		if _, err := book.create("t", "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := book.create("t", "x", nil); !errors.Is(err, errNotesFull) {
		t.Fatalf("note %d: %v, want errNotesFull", maxNotes+1, err)
	}
	if _, err := book.remove("n1"); err != nil {
		t.Fatal(err)
	}
	after, err := book.create("t", "x", nil)
	if err != nil || after.ID != fmt.Sprintf("n%d", maxNotes+1) {
		t.Errorf("after a deletion: %+v, %v; want a new id", after, err)
	}
}

func TestNotesPromptHoldsTheNotes(t *testing.T) {
	session := overStdio(t, "notes")
	got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "summarize_notes", Arguments: map[string]string{"tag": "list", "audience": "a new colleague"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Messages) != 3 {
		t.Fatalf("%d messages, want a request and 2 notes", len(got.Messages))
	}
	ask := got.Messages[0].Content.(*mcp.TextContent).Text
	if !strings.Contains(ask, "2 notes for a new colleague") {
		t.Errorf("request %q", ask)
	}
	first := got.Messages[1].Content.(*mcp.EmbeddedResource).Resource
	if first.URI != "note://n3" || !strings.HasPrefix(first.Text, "# Release checklist\n") {
		t.Errorf("first note %+v", first)
	}
}
