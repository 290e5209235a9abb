// Tokens measures what an agent reads and writes for one task, with S2SP and
// without: "which alerts are about wind, and how strong is it? Draw a chart."
//
//	go run ./cmd/weir serve --config examples/quickstart/weir.yaml   # in another shell
//	go run ./examples/s2sp/tokens
//
// It plays an agent that makes no mistake, at a gateway that runs the quickstart:
//
//	plain      the servers themselves, without the gateway's meta-tools: all alerts are read, and those about wind are written again
//	tables     the gateway alone, as for servers that know nothing of S2SP: a summary and a view are read, a $table reference is written
//	s2sp       the gateway, and the servers' own abstract_domains and resource_url: one column is looked at, the chart server fetches the rest
//
// Tokens are those of cl100k_base in the texts of results and in the arguments of
// calls. The alerts are generated and always the same, and random handles are
// replaced by others of the same form, so everybody measures the same.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/token"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := flag.String("url", "http://127.0.0.1:8088/mcp", "MCP URL of a gateway that runs the quickstart")
	flag.Parse()
	if err := run(ctx, *url, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tokens:", err)
		os.Exit(1)
	}
}

const (
	getAlerts = "get_alerts"
	drawChart = "draw_chart"
	mapping   = `{"event":"label","wind_kmh":"value"}`
)

// run measures tables of two sizes and prints a line for each way.
func run(ctx context.Context, url string, out io.Writer) error {
	fmt.Fprintln(out, "| alerts | way | the agent reads | and writes | tokens in all | of plain |")
	fmt.Fprintln(out, "| ---: | --- | ---: | ---: | ---: | ---: |")
	for _, rows := range []int{200, 5000} {
		plain, drawn := 0, ""
		for _, way := range []struct {
			name string
			do   func(context.Context, *agent, int) (string, error)
		}{{"plain", plainMCP}, {"tables", gatewayTables}, {"s2sp", abstractOfServer}} {
			a := &agent{base: strings.TrimSuffix(url, "/mcp")}
			chart, err := way.do(ctx, a, rows)
			if err = errors.Join(err, a.close()); err != nil {
				return fmt.Errorf("%s, %d alerts: %w", way.name, rows, err)
			}
			all := a.read + a.written
			if plain == 0 {
				plain, drawn = all, chart
			}
			if chart != drawn {
				return fmt.Errorf("%s, %d alerts: another chart came out: %s", way.name, rows, chart)
			}
			fmt.Fprintf(out, "| %d | %s | %d | %d | %d | %.1f %% |\n", rows, way.name, a.read, a.written, all, 100*float64(all)/float64(plain))
		}
	}
	return nil
}

// plainMCP reads every alert and writes those about wind again.
func plainMCP(ctx context.Context, a *agent, rows int) (string, error) {
	answer, err := a.call(ctx, "/mcps/weather/mcp", getAlerts, map[string]any{"rows": rows})
	if err != nil {
		return "", err
	}
	var about []json.RawMessage
	if err := rawjson.EachElement([]byte(answer), func(row []byte) bool {
		if strings.Contains(rawjson.Text(rawjson.Get(row, "event")), "Wind") {
			about = append(about, fmt.Appendf(nil, `{"_row_id":%d,"event":%s,"wind_kmh":%s}`, len(about), rawjson.Get(row, "event"), rawjson.Get(row, "wind_kmh")))
		}
		return true
	}); err != nil {
		return "", err
	}
	data, err := json.Marshal(about)
	if err != nil {
		return "", err
	}
	return a.call(ctx, "/mcps/chart/mcp", drawChart, map[string]any{"abstract_data": string(data), "column_mapping": mapping})
}

// aboutWind views which rows of a kept table are about wind, and returns their
// numbers. What does not fit into one view is in the next.
func aboutWind(ctx context.Context, a *agent, handle string) ([]int, error) {
	var ids []int
	for {
		view, err := a.meta(ctx, "tool_view", map[string]any{"handle": handle, "selector": map[string]any{
			"type": "table", "columns": []string{"event"}, "offset": len(ids), "limit": 1000,
			"where": []map[string]string{{"column": "event", "op": "contains", "value": "Wind"}},
		}})
		if err != nil {
			return nil, err
		}
		for _, m := range rowPattern.FindAllStringSubmatch(view, -1) {
			id, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		if !strings.Contains(view, "go on with") {
			return ids, nil
		}
	}
}

// gatewayTables looks into the kept result and hands rows of it on by their
// numbers.
func gatewayTables(ctx context.Context, a *agent, rows int) (string, error) {
	answer, err := a.execute(ctx, "weather:"+getAlerts, map[string]any{"rows": rows}, nil)
	if err != nil {
		return "", err
	}
	handle := handlePattern.FindString(answer)
	ids, err := aboutWind(ctx, a, handle)
	if err != nil {
		return "", err
	}
	return a.execute(ctx, "chart:"+drawChart, map[string]any{
		"abstract_data":  map[string]any{"$table": handle, "row_ids": ids, "columns": []string{"event", "wind_kmh"}},
		"column_mapping": mapping,
	}, nil)
}

// abstractOfServer has the weather server give out the column event, and the
// chart server fetch the rest.
func abstractOfServer(ctx context.Context, a *agent, rows int) (string, error) {
	answer, err := a.execute(ctx, "weather:"+getAlerts, map[string]any{"rows": rows}, map[string]any{"abstract_domains": "event"})
	if err != nil {
		return "", err
	}
	handle := handlePattern.FindString(answer)
	if handle == "" { // it is shown: the agent writes the rows that it wants
		chosen, err := shownWind(answer)
		if err != nil {
			return "", err
		}
		return a.execute(ctx, "chart:"+drawChart, map[string]any{
			"abstract_data": chosen, "resource_url": urlPattern.FindString(answer), "column_mapping": mapping,
		}, nil)
	}
	ids, err := aboutWind(ctx, a, handle)
	if err != nil {
		return "", err
	}
	return a.execute(ctx, "chart:"+drawChart, map[string]any{
		"abstract_data": map[string]any{"$table": handle, "row_ids": ids}, "resource_url": urlPattern.FindString(answer), "column_mapping": mapping,
	}, nil)
}

// shownWind returns the rows about wind of an abstract, as JSON.
func shownWind(answer string) (string, error) {
	var shown struct{ Abstract []map[string]any }
	if err := json.Unmarshal([]byte(answer), &shown); err != nil {
		return "", err
	}
	var chosen []map[string]any
	for _, row := range shown.Abstract {
		if event, _ := row["event"].(string); strings.Contains(event, "Wind") {
			chosen = append(chosen, row)
		}
	}
	data, err := json.Marshal(chosen)
	return string(data), err
}

// agent plays a model at one gateway and counts.
type agent struct {
	base          string
	sessions      map[string]*mcp.ClientSession
	ids           map[string]string // tool_ids by namespace:name
	read, written int
}

var (
	rowPattern    = regexp.MustCompile(`(?m)^(\d+),`) // of a view, which is CSV
	handlePattern = regexp.MustCompile(`art_[a-z0-9]+`)
	urlPattern    = regexp.MustCompile(`https?://[^"\s\\]+/s2sp/data/[A-Za-z0-9_-]+`)
)

// fixed replaces what is random by something that is as long and always the same.
func fixed(s string) string {
	s = handlePattern.ReplaceAllString(s, "art_q5rgx2m7kd3h6wnzt4yj8fcvbe")
	return urlPattern.ReplaceAllString(s, "http://127.0.0.1:8088/s2sp/data/dK7x_u3Qm9ZVbT1nLwXc5RfYpE0aHgJ8sD2oKiN6vBs")
}

// call calls a tool at a path of the gateway and returns the text of its result.
func (a *agent) call(ctx context.Context, path, tool string, args any) (string, error) {
	session, err := a.session(ctx, path)
	if err != nil {
		return "", err
	}
	written, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(written)})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, block := range result.Content {
		if t, ok := block.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	if result.IsError {
		return "", fmt.Errorf("%s: %s", tool, text.String())
	}
	a.written += token.Count(fixed(string(written)))
	a.read += token.Count(fixed(text.String()))
	return text.String(), nil
}

func (a *agent) meta(ctx context.Context, tool string, args any) (string, error) {
	return a.call(ctx, "/mcp", tool, args)
}

// execute runs a tool by its name; what finding its id costs is not counted.
func (a *agent) execute(ctx context.Context, name string, args, more map[string]any) (string, error) {
	if a.ids[name] == "" {
		read, written := a.read, a.written
		cards, err := a.meta(ctx, "tool_browse", map[string]any{"path": "/" + strings.SplitN(name, ":", 2)[0]})
		if err != nil {
			return "", err
		}
		a.read, a.written = read, written
		if a.ids == nil {
			a.ids = map[string]string{}
		}
		if a.ids[name] = regexp.MustCompile(regexp.QuoteMeta(name) + `[@#]\S+`).FindString(cards); a.ids[name] == "" {
			return "", fmt.Errorf("this gateway has no tool %s", name)
		}
	}
	call := map[string]any{"tool_id": a.ids[name], "args": args}
	for key, value := range more {
		call[key] = value
	}
	return a.meta(ctx, "tool_execute", call)
}

func (a *agent) session(ctx context.Context, path string) (*mcp.ClientSession, error) {
	if s := a.sessions[path]; s != nil {
		return s, nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "tokens", Version: "1"}, nil)
	s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: a.base + path}, nil)
	if err != nil {
		return nil, err
	}
	if a.sessions == nil {
		a.sessions = map[string]*mcp.ClientSession{}
	}
	a.sessions[path] = s
	return s, nil
}

func (a *agent) close() error {
	var errs []error
	for _, s := range a.sessions {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
