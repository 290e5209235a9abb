package s2sp_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/s2sp"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// TestWithoutCodec: a program that does not import s2sp/columnar offers no Arrow, and says how it would.
func TestWithoutCodec(t *testing.T) {
	_, session := weather(t, s2sp.Options{})
	text, _ := call(t, session, "get_alerts", map[string]any{"area": "CA", "abstract_domains": "event", "mode": "async"})
	var answer struct {
		URL string `json:"resource_url"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.URL == "" {
		t.Fatalf("%s: %v", text, err)
	}
	fetch := func(accept string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, answer.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if status, body := fetch(plane.TypeArrow); status != http.StatusNotAcceptable || strings.Contains(body, "rows come as") && strings.Contains(body, plane.TypeArrow) {
		t.Errorf("Arrow only: %d %s", status, body)
	}
	if status, body := fetch(plane.TypeArrow + ", application/json;q=0.5"); status != http.StatusOK || !strings.HasPrefix(body, `{"body":[`) {
		t.Errorf("Arrow or JSON: %d %s", status, body)
	}

	rows, err := table.Detect([]byte(alerts), table.DetectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := rows.View().WriteArrow(io.Discard); n != 0 || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "weir/s2sp/columnar") {
		t.Errorf("WriteArrow: %d, %v", n, err)
	}
	if _, err := table.Detect([]byte("PAR1 a file PAR1"), table.DetectOptions{}); !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, table.ErrNotTable) {
		t.Errorf("a Parquet file: %v", err)
	}
}
