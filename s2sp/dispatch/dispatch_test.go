package dispatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/s2sp/dispatch"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	abstract = `[{"_row_id":0,"event":"Wind"}]`
	body     = `[{"_row_id":0,"n":12345678901234567890,"s":"\ud800 \"quoted\""}]`
	sync1    = `{"total_rows":1,"columns":["event","n","s"],"abstract":` + abstract + `,"body":` + body + `}`
)

func quoted(s string) string { return string(rawjson.Quote(s)) }

// handleIn finds the one handle in a text and checks that the body is not there.
func handleIn(t *testing.T, out string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, dispatch.Scheme)
	if !ok || strings.Contains(out, "12345678901234567890") {
		t.Fatalf("no handle, or the body is still there: %s", out)
	}
	return dispatch.Scheme + rest[:43]
}

// shown is what the model gets of a result that is not withheld.
func shown(t *testing.T, d *dispatch.Dispatcher, result []byte) json.RawMessage {
	t.Helper()
	out, err := d.OnToolResult(result)
	if err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	return out
}

func TestBodiesGoAround(t *testing.T) {
	for name, result := range map[string]string{
		"structured":          `{"content":[],"structuredContent":` + sync1 + `}`,
		"text":                `{"content":[{"type":"text","text":` + quoted(sync1) + `,"annotations":{"x":1}}]}`,
		"both":                `{"content":[{"type":"text","text":` + quoted(sync1) + `}],"structuredContent":` + sync1 + `}`,
		"text under result":   `{"content":[{"type":"text","text":` + quoted(sync1) + `}],"structuredContent":{"result":` + quoted(sync1) + `}}`,
		"object under result": `{"content":[{"type":"image","data":"x"}],"structuredContent":{"result":` + sync1 + `}}`,
		"indented":            `{"content":[{"type":"text","text":` + quoted(strings.ReplaceAll(sync1, ",", ",\n  ")) + `}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := dispatch.New(dispatch.Options{})
			defer d.Close()
			out := string(shown(t, d, []byte(result)))
			handle := handleIn(t, out)
			if rawjson.Valid([]byte(out)) != nil || strings.Count(out, handle) != strings.Count(out, "abstract\\\":")+strings.Count(out, `"abstract":`) {
				t.Errorf("result %s", out)
			}
			if !strings.Contains(out, "Wind") || d.Len() != 1 {
				t.Errorf("%d bodies kept; result %s", d.Len(), out)
			}
			args, err := d.OnToolCall([]byte(`{"abstract_data":"[]","resource_url":` + quoted(handle) + `,"title":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				AbstractData string `json:"abstract_data"`
				ResourceURL  string `json:"resource_url"`
				BodyData     string `json:"body_data"`
				Title        string `json:"title"`
			}
			if err := json.Unmarshal(args, &got); err != nil {
				t.Fatal(err)
			}
			flat := strings.NewReplacer("\n", "", "  ", "").Replace(got.BodyData)
			if flat != body || got.ResourceURL != "" || got.AbstractData != "[]" || got.Title != "x" {
				t.Errorf("arguments %s, want the body byte for byte", args)
			}
			if _, err := d.OnToolCall([]byte(`{"resource_url":` + quoted(handle) + `}`)); !errors.Is(err, dispatch.ErrHandle) {
				t.Errorf("used twice: %v", err)
			}
		})
	}
}

func TestOthersPass(t *testing.T) {
	d := dispatch.New(dispatch.Options{})
	defer d.Close()
	for _, result := range []string{
		`{"content":[{"type":"text","text":"abstract body"}]}`,
		`{"content":[{"type":"text","text":` + quoted(`{"abstract":[],"resource_url":"http://127.0.0.1/s2sp/data/x"}`) + `}], "structuredContent": {"abstract": [], "x": "body"}}`,
		`{"content":[{"type":"text","text":` + quoted(`{"abstract":"a paper","body":"its text"}`) + `}]}`,
		`{"content":[{"type":"text","text":` + quoted(`{"abstract":"cut off","body":"in its te`) + `}]}`,
		`{"content":[{"type":"text","text":` + quoted(`{"abstract":[],"body":null,"resource_url":"http://127.0.0.1/s2sp/data/x"}`) + `}]}`,
		`{"content":[{"type":"text","text":` + quoted(`[{"abstract":{"en":"x"},"body":{"en":"y"}}]`) + `}]}`,
		`{"content":[{"type":"text","text":` + quoted(`{"papers":[{"abstract":"a","body":"b"},`) + `}]}`,
		`{"content":[{"type":"text","text":"abstract: none\nbody: the text"}]}`,
		`[1, "abstract", "body"]`,
		`{"content":{"abstract":1,"body":2}}`,
	} {
		if got := string(shown(t, d, []byte(result))); got != result {
			t.Errorf("%s became %s", result, got)
		}
	}
	for _, args := range []string{
		`{"resource_url":"http://127.0.0.1:9/s2sp/data/x"}`, `{ "note" : "ddi://x" }`, `{}`, ``, `{"resource_url":7,"x":"ddi:"}`, `{"resource_url":{"ddi://":1}}`,
	} {
		got, err := d.OnToolCall([]byte(args))
		if err != nil || string(got) != args {
			t.Errorf("%s became %s, %v", args, got, err)
		}
	}
	if d.Len() != 0 {
		t.Errorf("%d bodies kept", d.Len())
	}
}

func TestHandlesAreOfOneSession(t *testing.T) {
	one, other := dispatch.New(dispatch.Options{}), dispatch.New(dispatch.Options{})
	defer one.Close()
	defer other.Close()
	handle := handleIn(t, string(shown(t, one, []byte(`{"structuredContent":`+sync1+`}`))))
	args := []byte(`{"resource_url":` + quoted(handle) + `}`)
	if _, err := other.OnToolCall(args); !errors.Is(err, dispatch.ErrHandle) || !strings.Contains(err.Error(), "session") {
		t.Errorf("in another session: %v", err)
	}
	if _, err := one.OnToolCall(args); err != nil {
		t.Error(err)
	}
}

func TestBounds(t *testing.T) {
	d := dispatch.New(dispatch.Options{MaxCount: 2, MaxBytes: 100})
	defer d.Close()
	result := func(n int, fill string) []byte {
		return fmt.Appendf(nil, `{"structuredContent":{"abstract":[],"body":[%d,"12345678901234567890%s"]}}`, n, fill)
	}
	var handles []string
	for i := range 3 {
		handles = append(handles, handleIn(t, string(shown(t, d, result(i, "")))))
	}
	if d.Len() != 2 {
		t.Errorf("%d bodies, want 2", d.Len())
	}
	if _, err := d.OnToolCall([]byte(`{"resource_url":` + quoted(handles[0]) + `}`)); !errors.Is(err, dispatch.ErrHandle) {
		t.Errorf("the oldest is there: %v", err)
	}
	out := string(shown(t, d, result(9, strings.Repeat("x", 100))))
	if strings.Contains(out, "xxx") || strings.Contains(out, "ddi:") || !strings.Contains(out, "dropped") {
		t.Errorf("a body too large: %s", out)
	}
	out = string(shown(t, d, []byte(`{"structuredContent":{"warnings":["w"],"abstract":[],"body":["`+strings.Repeat("x", 100)+`"]}}`)))
	if rawjson.Valid([]byte(out)) != nil || !strings.Contains(out, `["w","the body`) {
		t.Errorf("an older warning: %s", out)
	}
	handleIn(t, string(shown(t, d, result(5, strings.Repeat("y", 60)))))
	if d.Len() != 1 {
		t.Errorf("%d bodies, want 1: they have more than 100 bytes together", d.Len())
	}
}

func TestExpiryNeedsNoTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatch.New(dispatch.Options{TTL: time.Minute})
		handle := handleIn(t, string(shown(t, d, []byte(`{"structuredContent":`+sync1+`}`))))
		time.Sleep(time.Minute)
		synctest.Wait()
		if held := reflect.ValueOf(d).Elem().FieldByName("bodies").Elem().FieldByName("bytes").Int(); held != 0 {
			t.Errorf("%d bytes are held after their time", held)
		}
		if _, err := d.OnToolCall([]byte(`{"resource_url":` + quoted(handle) + `}`)); !errors.Is(err, dispatch.ErrHandle) {
			t.Errorf("expired: %v", err)
		}
		shown(t, d, []byte(`{"structuredContent":`+sync1+`}`))
		d.Close()
		d.Close()
		if d.Len() != 0 {
			t.Error("a closed dispatcher holds bodies")
		}
		if out := string(shown(t, d, []byte(`{"structuredContent":`+sync1+`}`))); strings.Contains(out, "ddi:") || strings.Contains(out, "quoted") {
			t.Errorf("a closed dispatcher gives %s", out)
		}
	})
}

func TestOneOfManyTakes(t *testing.T) {
	d := dispatch.New(dispatch.Options{})
	defer d.Close()
	handle := handleIn(t, string(shown(t, d, []byte(`{"structuredContent":`+sync1+`}`))))
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := d.OnToolCall([]byte(`{"resource_url":` + quoted(handle) + `}`)); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 100 took the body", won.Load())
	}
}

func Example() {
	d := dispatch.New(dispatch.Options{})
	defer d.Close()
	result, err := d.OnToolResult(json.RawMessage(`{"content":[],"structuredContent":{"abstract":[{"_row_id":0}],"body":[{"_row_id":0,"text":"long"}]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var seen struct {
		StructuredContent struct {
			ResourceURL string `json:"resource_url"`
		}
	}
	if err := json.Unmarshal(result, &seen); err != nil {
		fmt.Println(err)
		return
	}
	arguments, err := json.Marshal(map[string]string{"resource_url": seen.StructuredContent.ResourceURL})
	if err != nil {
		fmt.Println(err)
		return
	}
	arguments, err = d.OnToolCall(arguments)
	fmt.Println(string(arguments), err)
	// Output: {"body_data":"[{\"_row_id\":0,\"text\":\"long\"}]"} <nil>
}
