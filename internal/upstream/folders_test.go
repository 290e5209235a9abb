package upstream

import (
	"slices"
	"testing"
)

func TestFoldersOf(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{nil, nil},
		{[]string{"-y", "server", "/srv/a", "relative/b", "--root=/srv/c", "token=/x", "--key=secret"}, []string{"/srv/a", "/srv/c"}},
		{[]string{"/1", "/2", "/3", "/4", "/5"}, []string{"/1", "/2", "/3", "/4"}},
	} {
		if got := foldersOf(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
