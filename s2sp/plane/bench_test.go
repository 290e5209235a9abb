package plane_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// A full fetch of 100,000 rows × 30 columns over a connection, next to
// http.ServeContent of the same bytes from memory, taken in turns.
func BenchmarkFullFetch(b *testing.B) {
	var data bytes.Buffer
	data.WriteByte('[')
	for row := range 100_000 {
		if row > 0 {
			data.WriteByte(',')
		}
		fmt.Fprintf(&data, `{"id":%d`, row)
		for col := range 29 {
			fmt.Fprintf(&data, `,"column_%d":"value %d"`, col, col*row%1000)
		}
		data.WriteByte('}')
	}
	data.WriteByte(']')
	rows, err := table.Index(data.Bytes(), table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	store := artifact.NewMemory(artifact.Options{MaxBytes: 1 << 30})
	defer store.Close()
	handler := plane.Handler(store, plane.HandlerOptions{})
	var whole []byte
	mux := http.NewServeMux()
	mux.Handle("/s2sp/", handler)
	mux.HandleFunc("/content", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	client := server.Client()
	buf := make([]byte, 1<<20)
	get := func(method, url string) (n int64) {
		req, err := http.NewRequest(method, url, strings.NewReader(""))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		n, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buf)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp.Status, err)
		}
		return n
	}
	token := func() string {
		tok, err := store.Deposit(b.Context(), "ann", "", rows, 0)
		if err != nil {
			b.Fatal(err)
		}
		return server.URL + plane.Path + tok.Value
	}
	resp, err := client.Post(token(), "application/json", nil)
	if err != nil {
		b.Fatal(err)
	}
	whole, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		b.Fatal(err)
	}
	// Medians: other work on the machine hits single turns.
	var ours, baseline []time.Duration
	b.SetBytes(int64(len(whole)))
	for b.Loop() {
		url := token()
		start := time.Now()
		if n := get("POST", url); n != int64(len(whole)) {
			b.Fatalf("%d bytes, want %d", n, len(whole))
		}
		ours = append(ours, time.Since(start))
		start = time.Now()
		get("GET", server.URL+"/content")
		baseline = append(baseline, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(baseline)
	b.ReportMetric(float64(baseline[len(baseline)/2])/float64(ours[len(ours)/2]), "x_baseline")
}
