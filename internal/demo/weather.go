package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/s2sp"
)

const weatherInstructions = "Weather alerts, forecasts and stations. get_alerts returns a wide table: " +
	"ask for an area, an event or a severity where you can. All data is generated and always the same."

var errNoStation = errors.New("no such station")

type alertsArgs struct {
	Area     string `json:"area,omitempty" jsonschema:"two-letter code of an area, such as CA"`
	Event    string `json:"event,omitempty" jsonschema:"kind of alert"`
	Severity string `json:"severity,omitempty" jsonschema:"how bad it is"`
	Rows     int    `json:"rows,omitempty" jsonschema:"how many alerts to return at most; 200 if left out"`
}

type forecastArgs struct {
	Station string `json:"station" jsonschema:"identifier of a station as list_stations returns it, such as CA-1"`
	Days    int    `json:"days,omitempty" jsonschema:"how many days to look ahead; 7 if left out"`
}

type stationsArgs struct {
	Area string `json:"area,omitempty" jsonschema:"two-letter code of an area, such as CA; every area if left out"`
}

// newWeather builds the weather server without its alerts. It has no state and needs no clock.
func newWeather(_ func() time.Time, logger *slog.Logger) *mcp.Server {
	server := mcp.NewServer(
		&mcp.Implementation{Name: "weather", Title: "Weather", Version: version},
		&mcp.ServerOptions{Instructions: weatherInstructions, Logger: logger, Capabilities: &mcp.ServerCapabilities{}},
	)
	mcp.AddTool(server, &mcp.Tool{
		Name:        "get_forecast",
		Title:       "Get the weather forecast",
		Description: "Get the daily forecast of a weather station: temperatures, chance of rain and wind.",
		Annotations: reads(),
		InputSchema: argumentsOf[forecastArgs](matching("station", "^[A-Z]{2}-[0-9]$"), between("days", 1, 14)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in forecastArgs) (*mcp.CallToolResult, resultRows[forecastDay], error) {
		all := stations()
		i := slices.IndexFunc(all, func(s station) bool { return s.ID == in.Station })
		if i < 0 {
			return nil, resultRows[forecastDay]{}, fmt.Errorf("%w: %q; list_stations gives the identifiers", errNoStation, in.Station)
		}
		return asArray(forecast(all[i], orDefault(in.Days, 7)))
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "list_stations",
		Title:       "List weather stations",
		Description: "List the weather stations with their place and elevation, all or those of one area.",
		Annotations: reads(),
		InputSchema: argumentsOf[stationsArgs](oneOf("area", regionCodes()...)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in stationsArgs) (*mcp.CallToolResult, resultRows[station], error) {
		found := slices.DeleteFunc(stations(), func(s station) bool { return in.Area != "" && s.Area != in.Area })
		return asArray(found)
	})
	return server
}

// addAlertTools adds get_alerts, whose rows go where the agent sends them: to the model, or past it.
func addAlertTools(s *s2sp.Server) {
	s2sp.AddResourceTool(s, s2sp.Tool{
		Name:  "get_alerts",
		Title: "Get weather alerts",
		Description: "Get the weather alerts in force: storms, floods, heat, frost, fire weather and more, " +
			"by area, kind of event or severity. One row an alert, 31 columns, up to 20,000 rows. " +
			"Columns to choose by: event, severity, urgency, certainty, status, area, headline, wind_kmh, rain_mm, temperature_c, population, onset, ends.",
		Annotations: reads(),
		InputSchema: argumentsOf[alertsArgs](oneOf("area", regionCodes()...), oneOf("event", hazardEvents()...),
			oneOf("severity", severities()...), between("rows", 1, maxAlerts)),
	}, func(_ context.Context, in alertsArgs) (s2sp.Rows, error) {
		return s2sp.RowsOf(alerts(alertFilter{area: in.Area, event: in.Event, severity: in.Severity}, orDefault(in.Rows, defaultAlerts)))
	})
}

// asArray writes a list the way servers in other languages do: the text is the bare JSON
// array, and the structured content has it under "result".
func asArray[T any](rows []T) (*mcp.CallToolResult, resultRows[T], error) {
	text, err := json.Marshal(rows)
	if err != nil {
		return nil, resultRows[T]{}, fmt.Errorf("writing %d rows: %w", len(rows), err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, resultRows[T]{rows}, nil
}
