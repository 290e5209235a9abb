package cli

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// Only what the file itself has is forgotten.
func TestCleanMappings(t *testing.T) {
	const smaps = `00400000-01073000 r-xp 00000000 fe:00 9988358                            /usr/bin/weir
Size:              12748 kB
Rss:               10276 kB
Anonymous:             0 kB
01073000-01fb7000 r--p 00c73000 fe:00 9988358                            /usr/bin/weir
Size:              15632 kB
Anonymous:             4 kB
01fb7000-0204f000 rw-p 01bb7000 fe:00 9988358                            /usr/bin/weir
Anonymous:             0 kB
02100000-02101000 r--s 01bb7000 fe:00 9988358                            /usr/bin/weir
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 77                         /usr/lib/weir
Anonymous:             0 kB
7f0000001000-7f0000002000 r--p 00000000 00:00 0 
Anonymous:             0 kB
02200000-02210000 r--p 01cb7000 fe:00 9988358                            /usr/bin/weir
Anonymous:             0 kB
`
	got := cleanMappings(strings.NewReader(smaps), "/usr/bin/weir")
	if want := []mapping{{0x400000, 0xc73000}, {0x2200000, 0x10000}}; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := cleanMappings(errorReader{}, "/usr/bin/weir"); got != nil {
		t.Errorf("of what cannot be read: %x", got)
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errors.New("no") }

// A program that has forgotten its code goes on, and has fewer pages.
func TestForgetCode(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(cleanMappings(f, program)) == 0 {
		t.Fatal("nothing of this program can be forgotten")
	}
	before := pagesOfFiles(t)
	forgetCode()
	if after := pagesOfFiles(t); after >= before {
		t.Errorf("%d kB of files before, %d after", before, after)
	}
}

// pagesOfFiles is how much of files is in this process, in kB.
func pagesOfFiles(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n := 0
	for _, c := range strings.TrimLeft(rest, " \t") {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
