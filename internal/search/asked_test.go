package search

import (
	"slices"
	"testing"
)

// TestAsked finds tools by queries as people and agents write them.
func TestAsked(t *testing.T) {
	ix := New(Options{}).
		With("atlassian", []Doc{
			{ID: "create_issue", Name: "createIssue", Description: "Create an issue in a project."},
			{ID: "delete_issue", Name: "deleteIssue", Description: "Delete an issue of a project."},
			{ID: "get_issue", Name: "getIssue", Description: "Return an issue of a project."},
		}).
		With("forge", []Doc{
			{ID: "forge:create_issue", Name: "create_issue", Description: "Create an issue in a project."},
			{ID: "forge:get_issue", Name: "get_issue", Description: "Return an issue of a project."},
		}).
		With("files", []Doc{
			{ID: "read_file", Name: "read_file", Description: "Deprecated: use read_text. Returns the text of a file."},
			{ID: "read_text", Name: "read_text", Description: "Returns the text of a file."},
			{ID: "list_deprecated", Name: "list_versions", Description: "Lists versions that the maker calls deprecated."},
		}).
		With("sheets", []Doc{
			{ID: "add_sheet", Name: "add_sheet", Description: "Add a sheet."},
			{ID: "get_sum", Name: "get-sum", Description: "Return the sum of two numbers."},
		}).
		With("work", []Doc{
			{ID: "find_people", Name: "find", Description: "Find people.", ServerTitle: "Zenith Directory"},
			{ID: "list_rooms", Name: "rooms", Description: "List rooms.", ServerTitle: "Zenith Directory"},
		})
	for _, c := range []struct{ query, want string }{
		{"create issue jira", "create_issue"},
		{"create isue in a projct jira", "create_issue"},
		{"get issue confluence", "get_issue"},
		{"delete issue", "delete_issue"},
		{"read a file", "read_text"},
		{"read_file", "read_file"}, // named exactly
		{"versions", "list_deprecated"},
		{"add 2 and 3", "get_sum"},
		{"add sheet 2", "add_sheet"},
		{"zenith rooms", "list_rooms"},
		{"who is Bob", "find_people"},
	} {
		hits := ix.Search(c.query, 3)
		if len(hits) == 0 || hits[0].ID != c.want {
			t.Errorf("%q finds %v, want %s first", c.query, hits, c.want)
		}
	}
}

func TestContradict(t *testing.T) {
	of := func(verb string) uint32 { return kinds()[verb] }
	for _, c := range []struct {
		query, doc string
		want       bool
	}{
		{"get", "create", true}, {"get", "delete", true}, {"get", "list", false}, {"get", "send", false},
		{"create", "delete", true}, {"create", "get", false}, {"delete", "get", true}, {"delete", "create", true},
		{"delete", "remove", false}, {"get", "nothing", false}, {"nothing", "delete", false},
	} {
		if got := contradict(of(c.query), of(c.doc)); got != c.want {
			t.Errorf("contradict(%s, %s) = %t", c.query, c.doc, got)
		}
	}
}

func TestDeprecated(t *testing.T) {
	for text, want := range map[string]bool{
		"Deprecated: use x.": true, "[DEPRECATED] Reads.": true, "**Deprecated** since 2.0": true, "(deprecated) Reads.": true, "Reads. This tool is deprecated.": true,
		"Deprecated in favor of x": true, "Deprecated packages are listed.": false, "Lists deprecated packages.": false, "": false, "Reads a file.": false,
	} {
		if got := deprecated(text); got != want {
			t.Errorf("deprecated(%q) = %t", text, got)
		}
	}
}

// TestSpelling: a word that is known stays as it is, however near another one is.
func TestSpelling(t *testing.T) {
	ix := New(Options{}).With("a", []Doc{
		{ID: "invoice", Name: "invoice", Description: "Make an invoice."},
		{ID: "vacation", Name: "leave", Description: "Take leave."},
		{ID: "form", Name: "forms", Description: "Fill in forms."},
	})
	for _, c := range []struct{ query, want string }{
		{"invoce", "invoice"}, {"invoicce", "invoice"}, {"invioce", "invoice"}, {"invoise", "invoice"}, {"vacaton", "vacation"},
	} {
		if hits := ix.Search(c.query, 3); len(hits) == 0 || hits[0].ID != c.want {
			t.Errorf("%q finds %v, want %s first", c.query, hits, c.want)
		}
	}
	s := ix.view.borrow()
	defer s.giveBack()
	for _, query := range []string{"table", "frm", "invoices"} {
		s.parse(query)
		for i := range s.words {
			before := string(s.words[i].stem)
			if s.spelled(&s.words[i]); string(s.words[i].stem) != before || len(s.touched) > 0 {
				t.Errorf("%q is corrected to %q, %d terms", query, s.words[i].stem, len(s.touched))
			}
		}
	}
	s.forget()
}

// TestDeprecatedStandsLast: a deprecated tool stands below each other one that serves the query, however well its
// words fit, and above those that share a word only. By its name it is found first.
func TestDeprecatedStandsLast(t *testing.T) {
	ix := New(Options{}).
		With("files", []Doc{
			{ID: "read_file", Name: "read_file", Description: "DEPRECATED. Read a file: returns the text of a file, read as a file."},
			{ID: "read_text", Name: "read_text", Description: "Return the content of a text file."},
			{ID: "read_media", Name: "read_media", Description: "Return the content of a picture or a sound file."},
			{ID: "watch", Name: "watch", Description: "Watch the clock of a file server."},
		}).
		With("old", []Doc{
			{ID: "old:read", Name: "read", Description: "Read a file.", About: "This server is deprecated."},
			{ID: "old:fax", Name: "send_fax", Description: "Send a fax to a number.", About: "This server is deprecated."},
		})
	place := func(query, id string) int {
		at := slices.IndexFunc(ix.Search(query, 10), func(h Hit) bool { return h.ID == id })
		if at < 0 {
			t.Errorf("%q does not find %s", query, id)
		}
		return at
	}
	for query, others := range map[string][]string{
		"read a file": {"read_text", "read_media"}, "read the content of a file": {"read_text", "read_media"}, "return text of file": {"read_text"},
	} {
		for _, old := range []string{"read_file", "old:read"} {
			for _, other := range others {
				if place(query, old) < place(query, other) {
					t.Errorf("%q: %s stands above %s: %v", query, old, other, ix.Search(query, 10))
				}
			}
		}
		if place(query, "read_file") > place(query, "watch") {
			t.Errorf("%q: a tool that only shares a word stands above: %v", query, ix.Search(query, 10))
		}
	}
	for query, want := range map[string]string{"read_file": "read_file", "files read_file": "read_file", "old read": "old:read", "send a fax to this number": "old:fax"} {
		if place(query, want) != 0 {
			t.Errorf("%q: %v", query, ix.Search(query, 10))
		}
	}
}
