package upstream

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/mcp"
)

// failing is a transport whose requests fail in one way.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// A server that turns out to be this process is left out: it is started once, calls
// are told why at once, and it is no failure, required or not.
func TestLeftOut(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	script := func(name, words string) *mcpserver.Server {
		return &mcpserver.Server{Name: name, Namespace: name, Type: mcpserver.TransportStdio, Start: mcpserver.StartBoot, Required: true, PerSession: true,
			Command: "/bin/sh", Args: []string{"-c", "echo $0 >> " + starts + "; echo " + words + " >&2; echo exit status 2 >&2; exit 2", name}}
	}
	m, _ := manage(t, Options{
		Instances: []string{"THIS-ONE", "ITS-PARENT"}, Marks: []string{"WEIR_PARENT=THIS-ONE.x"},
		Transport: func(_ string, _ Owner, base http.RoundTripper) http.RoundTripper { return failing{mcp.ErrLoop} },
	}, script("own", "weir: THIS-ONE: it would start itself"), script("parents", "ITS-PARENT"),
		&mcpserver.Server{Name: "url", Namespace: "url", Type: mcpserver.TransportHTTP, URL: "http://127.0.0.1:1/mcp"},
		&mcpserver.Server{Name: "marked", Namespace: "marked", Type: mcpserver.TransportStdio, Command: "/bin/sh", Args: []string{"-c", `echo "$WEIR_PARENT" >&2; exit 2`},
			Env: map[string]strict.Secret{"WEIR_PARENT": "hidden"}},
		script("other", "ANOTHER"))
	if err := m.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `"other"`) || strings.Contains(err.Error(), `"own"`) {
		t.Errorf("required servers that are not there: %v", err)
	}
	for _, st := range m.Status() {
		out := st.Name != "other"
		if (st.State == StateLeftOut) != out || st.Off() != out || (st.LastError == "") != out || out && !strings.HasPrefix(st.Note, "mcpServers."+st.Name+" is left out: ") {
			t.Errorf("%+v", st)
		}
	}
	for range 3 {
		for _, name := range []string{"own", "parents", "url"} {
			u, _ := m.Upstream(name)
			ctx := mcp.WithCaller(t.Context(), mcp.NewSession("s", "ann"))
			if _, err := u.Call(ctx, "tools/list", nil, nil); err == nil || !strings.Contains(err.Error(), "is left out") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	text, err := os.ReadFile(starts)
	if err != nil || strings.Count(string(text), "own\n") != 1 || strings.Count(string(text), "parents\n") != 1 {
		t.Errorf("starts: %q, %v", text, err)
	}
}
