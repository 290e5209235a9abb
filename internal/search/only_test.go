package search

import "testing"

func TestOnly(t *testing.T) {
	ix := New(Options{}).With("a", []Doc{{ID: "a:read", Name: "read_file", Description: "Read a file."}, {ID: "a:drop", Name: "drop_file", Description: "Delete a file."}}).
		With("b", []Doc{{ID: "b:read", Name: "read_page", Description: "Read a page."}})
	part := ix.Only(func(_, id string) bool { return id != "a:read" })
	for _, hit := range part.Search("read file", 10) {
		if hit.ID == "a:read" {
			t.Error("a document that is left out is found")
		}
	}
	if hits := part.Search("read file", 10); len(hits) != 2 || part.Len() != 2 {
		t.Errorf("%d documents, found %v", part.Len(), hits)
	}
	if hits := ix.Search("read file", 10); len(hits) != 3 || hits[0].ID != "a:read" || ix.Len() != 3 {
		t.Errorf("the index has changed: %v", hits)
	}
}
