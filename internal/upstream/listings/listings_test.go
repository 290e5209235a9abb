package listings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/store"
)

// TestDocumentOfAListing: a listing is the same after its document, equal ones have equal documents, and a document of
// another version is none.
func TestDocumentOfAListing(t *testing.T) {
	l := primitive.Listing{
		Upstream: "s", Namespace: "n", Title: "T", About: "A", Instructions: "I", Found: true, Tags: []string{"t"}, Folders: []string{"f"},
		Greeting: primitive.Greeting{ServerInfo: json.RawMessage(`{"name":"s"}`), Instructions: "G"},
		Tools:    []json.RawMessage{json.RawMessage(`{"name":"count"}`)}, Prompts: []json.RawMessage{json.RawMessage(`{"name":"p"}`)}, Cut: []string{"tools"},
	}
	doc, err := encodeListing(l, "print")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := encodeListing(l, "print"); err != nil || !bytes.Equal(again, doc) {
		t.Errorf("%s, %v", again, err)
	}
	zipped, err := zip(doc, "label")
	if err != nil {
		t.Fatal(err)
	}
	got, fingerprint, err := decodeListing(zipped)
	if err != nil || fingerprint != "print" || !reflect.DeepEqual(got, l) || labelOf(zipped) != "label" {
		t.Errorf("%+v, %q, %q, %v", got, fingerprint, labelOf(zipped), err)
	}
	other, err := zip(bytes.Replace(doc, []byte(`"v":1`), []byte(`"v":2`), 1), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := decodeListing(other); err == nil {
		t.Error("a document of another version is read")
	}
}

// TestRecentChanges: the last changes are known after a restart, within a bound.
func TestRecentChanges(t *testing.T) {
	var r recentChanges
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []TimedChange
	for i := range maxRecent + 10 {
		all = r.add([]catalog.Change{{ID: fmt.Sprint(i)}}, began.Add(time.Duration(i)*time.Second))
	}
	if len(all) != maxRecent || all[0].ID != "10" {
		t.Errorf("%d changes from %s on", len(all), all[0].ID)
	}
	docs := store.NewMemory(store.MemoryOptions{})
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	value, err := zip(text, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := docs.Set(t.Context(), recentKey, value, 0, 0); err != nil {
		t.Fatal(err)
	}
	var next recentChanges
	if err := next.restore(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	if got := next.since(began.Add((maxRecent + 7) * time.Second)); len(got) != 2 {
		t.Errorf("%d changes after the last but two", len(got))
	}
}
