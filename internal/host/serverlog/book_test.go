package serverlog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// texts returns the texts of lines, marks in brackets.
func texts(lines []Line) string {
	var all []string
	for _, l := range lines {
		if l.Mark {
			l.Text = "[" + l.Text + "]"
		}
		all = append(all, l.Text)
	}
	return strings.Join(all, "|")
}

// TestLines: pieces become lines, marks stand between the runs of a program, and an incomplete last
// line is kept when the program ends.
func TestLines(t *testing.T) {
	b := New(Options{})
	for run, pieces := range [][]string{{"one\ntw", "o\r\n", "\n", "last"}, {"again\n"}} {
		p := b.Start("files")
		for _, piece := range pieces {
			if n, err := p.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		p.End(fmt.Sprint("exit status ", run))
	}
	const want = "[starts]|one|two||last|[ended: exit status 0]|[starts]|again|[ended: exit status 1]"
	if got := texts(b.Lines("files", 0, 100)); got != want {
		t.Errorf("got %s", got)
	}
	if got := texts(b.Lines("", 6, 2)); got != "again|[ended: exit status 1]" {
		t.Errorf("the newest two: %s", got)
	}
	if got := b.Lines("other", 0, 100); len(got) != 0 {
		t.Errorf("another server: %v", got)
	}
	b.Forget("files")
	if got := b.Lines("", 0, 100); len(got) != 0 {
		t.Errorf("after Forget: %v", got)
	}
}

// TestOrder: lines of several servers come in the order in which they were written.
func TestOrder(t *testing.T) {
	b := New(Options{})
	one, two := b.Start("one"), b.Start("two")
	for i := range 4 {
		fmt.Fprintf([]*Program{one, two}[i%2], "%d\n", i)
	}
	if got := texts(b.Lines("", 2, 100)); got != "0|1|2|3" {
		t.Errorf("got %s", got)
	}
}

// TestBound: what a server floods is bounded, the newest lines are whole, and other servers keep
// theirs.
func TestBound(t *testing.T) {
	b := New(Options{})
	fmt.Fprintln(b.Start("quiet"), "still here")
	p := b.Start("loud")
	for i := range 100_000 {
		fmt.Fprintf(p, "line %d %s\n", i, strings.Repeat("x", i%200))
	}
	fmt.Fprint(p, strings.Repeat("y", 1<<20)+"\n")
	lines := b.Lines("loud", 0, 1<<20)
	size := 0
	for _, l := range lines {
		size += len(l.Text) + lineCost
	}
	if size > keptBytes || size < keptBytes-2*maxLine {
		t.Errorf("%d bytes are kept", size)
	}
	if before := lines[len(lines)-2].Text; before != "line 99999 "+strings.Repeat("x", 99_999%200) {
		t.Errorf("the line before the last: %q", before)
	}
	if last := lines[len(lines)-1].Text; last != strings.Repeat("y", maxLine)+" … 1032192 bytes more" {
		t.Errorf("the last line has %d bytes and ends with %q", len(last), last[len(last)-30:])
	}
	if got := texts(b.Lines("quiet", 0, 10)); got != "[starts]|still here" {
		t.Errorf("the quiet server: %s", got)
	}
	if c := cap(b.rings["loud"].lines); c > 4*keptBytes/lineCost {
		t.Errorf("the ring has room for %d lines", c)
	}
}

// TestSecrets: they do not reach the book, not at the bound of a line and not as a key of several
// lines.
func TestSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	b := New(Options{Redact: func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }})
	p := b.Start("a")
	fmt.Fprintf(p, "token %s\n", secret)
	fmt.Fprintf(p, "%s%s\n", strings.Repeat("z", maxLine-5), secret)
	fmt.Fprint(p, "-----BEGIN RSA PRIVATE KEY-----\nMIIEsecretkey\n-----END RSA PRIVATE KEY-----\nafter\n")
	p.End("because of " + secret)
	got := texts(b.Lines("a", 0, 100))
	if strings.Contains(got, "hunter") || strings.Contains(got, "MIIE") || !strings.Contains(got, "|after|[ended: because of [redacted]]") {
		t.Errorf("got %.200s … %s", got, got[len(got)-200:])
	}
	p = b.Start("b")
	fmt.Fprint(p, "-----BEGIN PRIVATE KEY-----\n"+strings.Repeat("x\n", 2*maxHidden)+"seen\n")
	if got := texts(b.Lines("b", 0, 1)); got != "seen" {
		t.Errorf("a key without an end hides everything: %s", got)
	}
}

// TestWait: a reader gets a line that comes later, and ends with its context.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		p := b.Start("a")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := b.Wait(t.Context(), b.Last()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		fmt.Fprintln(p, "now")
		all.Wait()
		if err := b.Wait(t.Context(), 1); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Wait(ctx, b.Last()); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}
