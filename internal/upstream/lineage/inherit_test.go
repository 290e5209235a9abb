package lineage

import (
	"slices"
	"testing"
)

// TestInherited: a server program gets the way to programs, files and proxies, and no secrets.
func TestInherited(t *testing.T) {
	got := Inherited([]string{"PATH=/bin", "LC_ALL=C", "LCX=1", "GITHUB_TOKEN=secret", "XDG_CACHE_HOME=/c", "HTTPS_PROXY=p", "PATHS=1", "AWS_SECRET_ACCESS_KEY=s", "no equals sign"})
	if want := []string{"PATH=/bin", "LC_ALL=C", "XDG_CACHE_HOME=/c", "HTTPS_PROXY=p"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	names := InheritedNames()
	names[0] = "GITHUB_TOKEN"
	if InheritedNames()[0] == "GITHUB_TOKEN" {
		t.Error("a caller can change the list")
	}
}

// TestReadLineage: parts of the variable that weir has not written are ignored, and a long one is cut.
func TestReadLineage(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a.b": 1, "a.b,c.d": 2, "a": 0, ".b": 0, "a.": 0, "a.b,,c": 1,
	} {
		if got := readLineage(text); len(got) != want {
			t.Errorf("%q has %d ancestors, want %d", text, len(got), want)
		}
	}
	var long string
	for range 100 {
		long += "a.b,"
	}
	if got := readLineage(long); len(got) != 2*maxAncestors {
		t.Errorf("%d ancestors", len(got))
	}
	if (Lineage{}).Variable() != nil {
		t.Error("no lineage has a variable")
	}
	own, err := Descend("a.b", "")
	if err != nil {
		t.Fatal(err)
	}
	if all := own.Instances(); len(all) != 2 || all[0] != "a" {
		t.Errorf("the instances are %q", all)
	}
}
