package clustertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/testkit/clustertest"
	"github.com/weir-mcp/weir/internal/testkit/linearity"
)

const (
	// tokenFetches is how many fetches make chaos makes at least.
	tokenFetches = 100_000
	// tokenReaders are the fetches of one token.
	tokenReaders = 4
	// tokensOfTable is how many tokens are offered for one table.
	tokensOfTable = 200
	// tokenWorkers spend tokens at the same time, and with -chaos manyWorkers: of those, most wait for a node that was
	// paused or cut off.
	tokenWorkers = 6
	manyWorkers  = 24
	// tokenTime is how long the rest of tokenFetches may take when all is mended.
	tokenTime = 10 * time.Minute
	// tokenStray is how often a request goes to a node that is known not to run: one in so many.
	tokenStray = 20
)

// serveTable starts an MCP server whose tool returns a table that weir holds back, and returns its URL.
func serveTable(t *testing.T) string {
	t.Helper()
	rows := make([]map[string]any, 300)
	for i := range rows {
		rows[i] = map[string]any{"n": i, "word": "plain"}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "counter", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "count", Description: "Counts."}, func(context.Context, *mcp.CallToolRequest, countArgs) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true}))
	t.Cleanup(func() {
		web.Close()
		for left := range s.Sessions() { // of gateways that were killed
			_ = left.Close()
		}
	})
	return web.URL
}

var (
	handleForm = regexp.MustCompile(`art_[a-z0-9]+`)
	tokenForm  = regexp.MustCompile(`/s2sp/data/[A-Za-z0-9_-]+`)
)

// tokens spends URLs that work once.
type tokens struct {
	c       *clustertest.Cluster
	tool    string
	client  *http.Client
	history linearity.History
	made    atomic.Int64 // fetches
	results *outcomes

	mu     sync.Mutex       // guards offers
	offers map[string]int64 // by token: the stamp of its offer
}

// post makes a request at a node, and returns the status, 0 for none.
func (x *tokens) post(ctx context.Context, n *clustertest.Node, path, body string) (status int, answer string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+callSlack)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := x.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(raw)
}

// hold makes a table that a node holds back, and returns its handle, "" for none.
func (x *tokens) hold(ctx context.Context, n *clustertest.Node) (handle string) {
	s := &session{path: "/mcp", client: x.client}
	ctx, cancel := context.WithTimeout(ctx, callTimeout+callSlack)
	defer cancel()
	status, _, id, err := s.post(ctx, n, hello)
	if err != nil || status != http.StatusOK {
		return ""
	}
	s.id = id
	_, answer, _, _ := s.post(ctx, n, s.call(1, x.tool, "table", 0))
	return handleForm.FindString(answer)
}

// offer returns the path of a URL that works once, "" for none.
func (x *tokens) offer(ctx context.Context, n *clustertest.Node, handle string) string {
	stamp := x.history.Now()
	_, answer := x.post(ctx, n, "/s2sp/offer/"+handle, "")
	token := tokenForm.FindString(answer)
	if token != "" {
		x.mu.Lock()
		x.offers[token] = stamp
		x.mu.Unlock()
	}
	return token
}

// fetch spends a token at a node.
func (x *tokens) fetch(ctx context.Context, n *clustertest.Node, token string) {
	op := linearity.Operation{Part: token, Input: linearity.Fetch{By: n.Name}, Output: linearity.Lost, Call: x.history.Now(), Return: linearity.Never}
	status, answer := x.post(ctx, n, token, `{"row_ids":[7],"columns":["n"]}`)
	switch {
	case status == http.StatusOK && strings.Contains(answer, `[{"_row_id":7,"n":7}]`):
		op.Output, op.Return = linearity.Rows, x.history.Now()
	case status == http.StatusNotFound:
		op.Output, op.Return = linearity.Refused, x.history.Now()
	}
	x.results.add(fmt.Sprint(status, " ", op.Output), answer)
	x.history.Add(op)
	x.made.Add(1)
}

// work spends tokens of one table after the other.
func (x *tokens) work(ctx context.Context, r *rand.Rand) {
	any := func() *clustertest.Node {
		n := x.c.Nodes[r.IntN(len(x.c.Nodes))]
		for range len(x.c.Nodes) { // a paused node would hold the worker for the time of a call
			if _, runs := n.Epoch(); runs || r.IntN(tokenStray) == 0 {
				break
			}
			n = x.c.Nodes[r.IntN(len(x.c.Nodes))]
		}
		return n
	}
	for ctx.Err() == nil {
		handle := x.hold(ctx, any())
		for range tokensOfTable {
			if handle == "" || ctx.Err() != nil {
				break
			}
			token := x.offer(ctx, any(), handle)
			if token == "" {
				break
			}
			var all sync.WaitGroup
			together := r.IntN(2) == 0
			for range tokenReaders {
				n := any()
				if !together {
					x.fetch(ctx, n, token)
					continue
				}
				all.Go(func() { x.fetch(ctx, n, token) })
			}
			all.Wait()
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// owner returns the part of a token that names its node.
func owner(token string) string {
	inc, _, _ := strings.Cut(strings.TrimPrefix(token, "/s2sp/data/"), "-")
	return inc
}

// live returns the nodes that can still give rows: each one offers a token.
func (x *tokens) live(t *testing.T) map[string]bool {
	t.Helper()
	incs := map[string]bool{}
	for _, n := range x.c.Nodes {
		token := ""
		for end := time.Now().Add(2 * time.Minute); token == ""; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s offers nothing", n.Name)
			}
			if handle := x.hold(t.Context(), n); handle != "" {
				token = x.offer(t.Context(), n, handle)
			}
		}
		incs[owner(token)] = true
	}
	return incs
}

// TestTokens: while nodes are killed, ended and paused and links break, a URL that works once gives its rows to one
// of its readers at most, at whichever node they ask, and no reader is refused before that, unless its node has ended.
// make chaos makes 100,000 fetches, and fails with fewer.
func TestTokens(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{Weir: weirBin, Config: fmt.Sprintf("mode: gateway\npublic_url: http://weir.test\nmcpServers: {counter: {url: %q, required: true, timeout: %v}}", serveTable(t), callTimeout)})
	workers := tokenWorkers
	if *chaosTime > 0 {
		workers = manyWorkers
	}
	transport := &http.Transport{MaxIdleConnsPerHost: workers * tokenReaders}
	t.Cleanup(transport.CloseIdleConnections)
	x := &tokens{c: c, client: &http.Client{Transport: transport}, offers: map[string]int64{}, results: &outcomes{counts: map[string]int{}, first: map[string]string{}}}
	x.tool = toolID(t, open(t, c.Nodes[0], "/mcp"), c.Nodes[0])
	breaking, _ := lasts()
	chaos := newChaos(t, c)
	working := func(ctx context.Context) {
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() { x.work(ctx, rand.New(rand.NewPCG(chaos.seed, uint64(10+i)))) })
		}
		all.Wait()
	}
	chaos.run(breaking, working)
	broken := x.made.Load()
	if *chaosTime > 0 && broken < tokenFetches {
		ctx, cancel := context.WithTimeout(t.Context(), tokenTime)
		go func() {
			defer cancel()
			for ctx.Err() == nil && x.made.Load() < tokenFetches {
				sleep(ctx, 100*time.Millisecond)
			}
		}()
		working(ctx)
		cancel()
	}
	live := x.live(t)
	for token, stamp := range x.offers {
		if !live[owner(token)] { // at any time since
			x.history.Add(linearity.Operation{Part: token, Input: linearity.End{}, Call: stamp, Return: linearity.Never})
		}
	}
	t.Logf("%d fetches of %d tokens, %d of them while things broke: %v", x.made.Load(), len(x.offers), broken, x.results)
	if made := x.made.Load(); *chaosTime > 0 && made < tokenFetches {
		t.Errorf("%d fetches in %v and %v are no proof: make chaos wants %d", made, breaking, tokenTime, tokenFetches)
	}
	if err := x.history.Check(linearity.Tokens(), time.Minute); err != nil {
		t.Error(err)
	}
}
