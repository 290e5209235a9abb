package demo

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

func TestAlertsAreATable(t *testing.T) {
	session := overStdio(t, "weather")
	var table resultRows[map[string]any]
	result := call(t, session, "get_alerts", nil, &table)
	if len(table.Result) != defaultAlerts {
		t.Fatalf("%d rows, want %d", len(table.Result), defaultAlerts)
	}
	for i, row := range table.Result {
		if len(row) != 31 || row["id"] != fmt.Sprintf("urn:demo:alert:%05d", i) {
			t.Fatalf("row %d has %d columns and id %v", i, len(row), row["id"])
		}
	}
	var inText []map[string]any
	if err := json.Unmarshal([]byte(text(t, result)), &inText); err != nil {
		t.Fatalf("the text is no JSON array: %v", err)
	}
	if !reflect.DeepEqual(inText, table.Result) {
		t.Error("text and structured content differ")
	}
}

func TestAlertsFilter(t *testing.T) {
	session := overStdio(t, "weather")
	var all, some resultRows[alert]
	call(t, session, "get_alerts", map[string]any{"rows": 1500}, &all)
	if len(all.Result) != 1500 {
		t.Fatalf("%d rows, want 1500", len(all.Result))
	}
	byID := map[string]alert{}
	for _, a := range all.Result {
		byID[a.ID] = a
	}
	for _, filter := range []alertFilter{
		{area: "CA"}, {event: "Flood Watch"}, {severity: "Minor"},
		{area: "TX", event: "Tornado Warning", severity: "Extreme"},
	} {
		args := map[string]any{"rows": 10}
		if filter.area != "" {
			args["area"] = filter.area
		}
		if filter.event != "" {
			args["event"] = filter.event
		}
		if filter.severity != "" {
			args["severity"] = filter.severity
		}
		call(t, session, "get_alerts", args, &some)
		if len(some.Result) != 10 {
			t.Errorf("%+v: %d rows, want 10", filter, len(some.Result))
		}
		for _, a := range some.Result {
			if (filter.area != "" && a.Area != filter.area) || (filter.event != "" && a.Event != filter.event) ||
				(filter.severity != "" && a.Severity != filter.severity) {
				t.Errorf("%+v let %s %s %s through", filter, a.Area, a.Event, a.Severity)
			}
			if same, ok := byID[a.ID]; ok && !reflect.DeepEqual(same, a) {
				t.Errorf("%s differs with and without the filter", a.ID)
			}
		}
	}
	refused(t, session, "get_alerts", map[string]any{"area": "Atlantis"}, "area")
	refused(t, session, "get_alerts", map[string]any{"rows": maxAlerts + 1}, "rows")
}

func TestAlertsHaveEverySeverityAndEvent(t *testing.T) {
	seen := map[string]int{}
	all := alerts(alertFilter{}, maxAlerts)
	for _, a := range all {
		seen[a.Severity]++
		seen[a.Event]++
		seen[a.Area]++
		if a.RainMm < 0 || a.WindKmh < 0 || len(a.Zones) == 0 || a.Onset > a.Ends {
			t.Fatalf("impossible weather: %+v", a)
		}
	}
	if len(all) != maxAlerts {
		t.Errorf("%d alerts, want %d", len(all), maxAlerts)
	}
	for _, names := range [][]string{severities(), hazardEvents(), regionCodes()} {
		for _, name := range names {
			if seen[name] < 50 {
				t.Errorf("only %d alerts with %s", seen[name], name)
			}
		}
	}
}

func TestForecastAndStations(t *testing.T) {
	session := overStdio(t, "weather")
	var places resultRows[station]
	call(t, session, "list_stations", nil, &places)
	if len(places.Result) != len(regions())*stationsEach {
		t.Fatalf("%d stations", len(places.Result))
	}
	call(t, session, "list_stations", map[string]any{"area": "WA"}, &places)
	if len(places.Result) != stationsEach {
		t.Fatalf("%d stations in WA, want %d", len(places.Result), stationsEach)
	}
	var first, again resultRows[forecastDay]
	call(t, session, "get_forecast", map[string]any{"station": places.Result[0].ID}, &first)
	call(t, session, "get_forecast", map[string]any{"station": places.Result[0].ID, "days": 14}, &again)
	if len(first.Result) != 7 || len(again.Result) != 14 || !reflect.DeepEqual(first.Result, again.Result[:7]) {
		t.Errorf("7 days %+v do not begin the 14 days %+v", first.Result, again.Result)
	}
	for _, day := range again.Result {
		if day.LowC > day.HighC {
			t.Errorf("%s: low %v over high %v", day.Date, day.LowC, day.HighC)
		}
	}
	refused(t, session, "get_forecast", nil, "station")
	refused(t, session, "get_forecast", map[string]any{"station": "ZZ-1"}, "list_stations")
}

// BenchmarkAlerts asks for the default table over a session, next to making its rows alone.
func BenchmarkAlerts(b *testing.B) {
	session := overStdio(b, "weather")
	start := time.Now()
	for range 20 {
		if len(alerts(alertFilter{}, defaultAlerts)) != defaultAlerts {
			b.Fatal("too few alerts")
		}
	}
	baseline := time.Since(start) / 20
	var table resultRows[json.RawMessage]
	for b.Loop() {
		call(b, session, "get_alerts", nil, &table)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(baseline), "x_baseline")
}
