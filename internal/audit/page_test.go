package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// pageDay is the begin of the records of pagesOf.
var pageDay = time.Now().UTC().Truncate(24 * time.Hour)

// smallFiles is the size of segments of a log of many segments.
const smallFiles = 4 << 10

// pagesOf writes a log of several segments and returns it closed, with its records. Each tenth record
// is by ann, and the others by bob.
func pagesOf(t *testing.T, size int64, more ...*Record) (*Log, []uint64) {
	t.Helper()
	keys, err := KeysFrom("a secret of the test, long enough")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{Dir: t.TempDir(), Keys: keys, MaxBytes: size, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		r := &Record{Kind: End, Principal: "bob", Server: "up", ToolID: fmt.Sprintf("up:tool@1.0#%d", i%3), Time: pageDay.Add(time.Duration(i) * time.Second)}
		if i%10 == 0 {
			r.Principal = "ann"
		}
		more = append(more, r)
	}
	for _, r := range more {
		if err := l.Sync(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	var all []uint64
	if err := Each(l.opts.Dir, func(raw []byte) bool { all = append(all, seqOf(raw)); return true }); err != nil {
		t.Fatal(err)
	}
	list, err := segments(l.opts.Dir)
	if err != nil || size == smallFiles && len(list) < 3*maxPageFiles {
		t.Fatalf("%d segments, %v", len(list), err)
	}
	return l, all
}

func numbers(records []json.RawMessage) (list []uint64) {
	for _, raw := range records {
		list = append(list, seqOf(raw))
	}
	return list
}

// TestPages walks a log in both directions, with pages of several sizes and with filters: each record
// that matches comes once, in order, and a page reads few files.
func TestPages(t *testing.T) {
	l, all := pagesOf(t, smallFiles)
	for _, test := range []struct {
		q    Query
		want int
	}{
		{Query{Limit: 1}, len(all)}, {Query{Limit: 7}, len(all)}, {Query{}, len(all)}, {Query{Limit: MaxPage}, len(all)},
		{Query{Principal: "ann"}, 20}, {Query{Principal: "ann", Limit: 3}, 20}, {Query{Kind: "end", Limit: 50}, 200},
		{Query{Tool: "up:tool"}, 200}, {Query{Tool: "up:tool@1.0#1", Limit: 9}, 67}, {Query{Tool: "up:too"}, 0}, {Query{Server: "down"}, 0},
		{Query{Kind: "end", Since: pageDay.Add(time.Minute), Until: pageDay.Add(2 * time.Minute)}, 60},
	} {
		var back, forth []uint64
		for q := test.q; ; {
			page, err := l.Page(t.Context(), q)
			if err != nil || q.Limit > 0 && len(page.Records) > q.Limit {
				t.Fatalf("%+v: %d records, %v", q, len(page.Records), err)
			}
			back = append(numbers(page.Records), back...)
			if page.Older == 0 {
				break
			}
			if q.Before > 0 && page.Older >= q.Before {
				t.Fatalf("%+v goes on before %d", q, page.Older)
			}
			q.Before = page.Older
		}
		for q := test.q; ; {
			q.Forward = true
			page, err := l.Page(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			forth = append(forth, numbers(page.Records)...)
			if page.Newer == q.After {
				break
			}
			q.After = page.Newer
		}
		if len(back) != test.want || !slices.Equal(back, forth) || !slices.IsSorted(back) || len(slices.Compact(slices.Clone(back))) != len(back) {
			t.Errorf("%+v: %d backward, %d forward, want %d", test.q, len(back), len(forth), test.want)
		}
	}
	newest, err := l.Page(t.Context(), Query{Limit: 5})
	if err != nil || !slices.Equal(numbers(newest.Records), all[len(all)-5:]) || newest.Newer != all[len(all)-1] {
		t.Errorf("the newest are %v, then after %d", numbers(newest.Records), newest.Newer)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Page(cancelled, Query{}); err == nil {
		t.Error("a page for a client that has gone")
	}
}

// TestPageBytes: a page of large records is short, and loses none.
func TestPageBytes(t *testing.T) {
	text, err := json.Marshal(string(slices.Repeat([]byte{'x'}, 150<<10)))
	if err != nil {
		t.Fatal(err)
	}
	l, _ := pagesOf(t, 64<<20, slices.Repeat([]*Record{{Kind: Begin, Args: text}}, 60)...)
	seen, pages := 0, 0
	for q := (Query{Kind: "begin"}); ; {
		page, err := l.Page(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		pages++
		for _, raw := range page.Records {
			size += len(raw)
		}
		if size > maxPageBytes {
			t.Errorf("a page of %d bytes", size)
		}
		if seen += len(page.Records); page.Older == 0 {
			break
		}
		q.Before = page.Older
	}
	if seen != 60 || pages < 2 {
		t.Errorf("%d records on %d pages", seen, pages)
	}
}

// TestPageOfADeletedFile: a segment that is deleted while a page is read counts as empty.
func TestPageOfADeletedFile(t *testing.T) {
	l, all := pagesOf(t, smallFiles)
	list, err := segments(l.opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Clean(list[0].path)); err != nil {
		t.Fatal(err)
	}
	p := pager{ctx: t.Context(), q: Query{Limit: MaxPage}}
	if err := p.backward(list[:3]); err != nil || len(p.page.Records) == 0 {
		t.Errorf("%d of %d records, %v", len(p.page.Records), len(all), err)
	}
}
