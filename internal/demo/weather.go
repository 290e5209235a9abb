package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
func newWeather(func() time.Time) *server {
	server := newServer("weather", "Weather", weatherInstructions)
	addList(server, tool{
		"get_forecast", "Get the weather forecast", reads(),
		"Get the daily forecast of a weather station: temperatures, chance of rain and wind.",
	}, func(in forecastArgs) ([]forecastDay, error) {
		all := stations()
		i := slices.IndexFunc(all, func(s station) bool { return s.ID == in.Station })
		if i < 0 {
			return nil, fmt.Errorf("%w: %q; list_stations gives the identifiers", errNoStation, in.Station)
		}
		return forecast(all[i], orDefault(in.Days, 7)), nil
	}, matching("station", "^[A-Z]{2}-[0-9]$"), between("days", 1, 14))
	addList(server, tool{
		"list_stations", "List weather stations", reads(),
		"List the weather stations with their place and elevation, all or those of one area.",
	}, func(in stationsArgs) ([]station, error) {
		return slices.DeleteFunc(stations(), func(s station) bool { return in.Area != "" && s.Area != in.Area }), nil
	}, oneOf("area", regionCodes()...))
	return server
}

// addAlertTools adds get_alerts, whose rows go where the agent sends them: to the model, or past it.
func addAlertTools(server *server, s *s2sp.Server) {
	server.addTool(s2sp.ResourceTool(s, s2sp.Tool{
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
	}))
}
