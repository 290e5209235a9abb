package result

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/limit/work"
)

// worstSelector keeps hundreds of threads of Go's engine alive at every byte.
const worstSelector = `(?:a?){300}b`

// TestSearchIsBounded: a search stops where it costs too much and goes on from
// there; only a line that is too much by itself is an error.
func TestSearchIsBounded(t *testing.T) {
	line := strings.Repeat("a", 1000)
	text := strings.Repeat(line+"\n", 30) + "aab\n"
	search := func(ctx context.Context, data string, start int) (View, error) {
		return selectBytes(ctx, artifact.Artifact{Handle: "art_x", MediaType: "text/plain"}, []byte(data),
			json.RawMessage(fmt.Sprintf(`{"type":"search","pattern":%q,"start":%d}`, worstSelector, start)), ViewOptions{MaxWork: 5_000_000})
	}
	v, err := search(t.Context(), text, 0)
	if err != nil || v.Text != "" || !strings.HasPrefix(v.Notice, "[no match in lines 0 to ") || !strings.Contains(v.Notice, "of 31; the pattern is too expensive") {
		t.Fatalf("%+v, %v", v, err)
	}
	var next struct{ Start int }
	for views := 1; next.Start < 30; views++ {
		before := next.Start
		if err := json.Unmarshal(v.Next, &next); err != nil || next.Start <= before || views > 10 {
			t.Fatalf("%s, %v, view %d", v.Next, err, views)
		}
		if v, err = search(t.Context(), text, next.Start); err != nil {
			t.Fatal(err)
		}
		if v.Next == nil {
			break
		}
	}
	if v.Text != "30:aab" {
		t.Errorf("%+v", v)
	}
	one := strings.Repeat("a", 2<<16)
	_, err = search(t.Context(), one+"\nab", 0)
	var e *Error
	if !errors.As(err, &e) || e.Code != ViewFailed || !strings.Contains(e.Message, "line 0 of 131072 bytes") || !strings.Contains(e.Message, `"start":1`) {
		t.Errorf("%v", err)
	}
	if v, err := search(t.Context(), one+"\nab", 1); err != nil || v.Text != "1:ab" {
		t.Errorf("%+v, %v", v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := search(ctx, one, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_, err = selectBytes(t.Context(), artifact.Artifact{Handle: "art_x"}, []byte("x"), json.RawMessage(`{"type":"search","pattern":"`+strings.Repeat(`(?:(?:a{10}){10}){10}`, 20)+`"}`), ViewOptions{})
	if !errors.As(err, &e) || e.Code != ViewFailed || !strings.Contains(e.Message, "instructions") {
		t.Errorf("%v", err)
	}
}

// TestTableRegexIsBounded: a condition that costs too much is named.
func TestTableRegexIsBounded(t *testing.T) {
	rows := `[` + strings.Repeat(`{"a":"`+strings.Repeat("a", 1000)+`"},`, 200) + `{"a":"ab"}]`
	query := func(ctx context.Context, where string) (View, error) {
		return selectBytes(ctx, artifact.Artifact{Handle: "art_x", MediaType: "application/json"}, []byte(rows), json.RawMessage(`{"type":"table","where":[`+where+`]}`), ViewOptions{MaxWork: 5_000_000})
	}
	var e *Error
	worst := `{"column":"a","op":"regex","value":"` + worstSelector + `"}`
	if _, err := query(t.Context(), worst); !errors.As(err, &e) || e.Code != ViewFailed || !strings.Contains(e.Message, "where[0].value is a pattern too expensive") {
		t.Errorf("%v", err)
	}
	if v, err := query(t.Context(), `{"column":"a","op":"suffix","value":"b"},`+worst); err != nil || !strings.Contains(v.Text, `"ab"`) {
		t.Errorf("behind a cheaper condition: %+v, %v", v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := query(ctx, worst); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestLargeViewsTakeTurns: a view that computes much waits for its turn, and a
// small one does not.
func TestLargeViewsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := work.NewTurns(1)
		other := work.NewMeter(t.Context(), work.Options{Turns: turns})
		if err := other.Spend(2 * work.Small); err != nil {
			t.Fatal(err)
		}
		view := func(data, selector string) error {
			_, err := selectBytes(t.Context(), artifact.Artifact{Handle: "art_x", MediaType: "text/plain"}, []byte(data), json.RawMessage(selector), ViewOptions{Turns: turns})
			return err
		}
		if err := view(strings.Repeat("some text\n", 10_000), `{"type":"search","pattern":"nothing"}`); err != nil {
			t.Error(err)
		}
		large := strings.Repeat(`{"a":[1,2,3]},`, 100_000)
		for _, selector := range []string{`{"type":"json_path","path":"$..*..*..*..b"}`, `{"type":"table","order_by":["a"]}`} {
			began := time.Now()
			var e *Error
			if err := view("["+large+`{"a":1}]`, selector); !errors.As(err, &e) || !strings.Contains(e.Message, "took longer than 20s") || time.Since(began) != maxViewTime {
				t.Errorf("%s: %v after %v", selector, err, time.Since(began))
			}
		}
		// A search that has begun says where it goes on.
		v, err := selectBytes(t.Context(), artifact.Artifact{Handle: "art_x", MediaType: "text/plain"}, []byte(strings.Repeat("some text\n", 200_000)),
			json.RawMessage(`{"type":"search","pattern":"[x-z]+$"}`), ViewOptions{Turns: turns})
		if err != nil || v.Next == nil || !strings.Contains(v.Notice, "of 200000; ") {
			t.Errorf("%+v, %v", v, err)
		}
		other.Close()
	})
}
