package demo

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	maxAlerts     = 20_000 // alerts there are, and the most one call returns
	defaultAlerts = 200
	stationsEach  = 3 // weather stations in each area
)

// weatherEpoch is the day around which the generated weather happens.
var weatherEpoch = time.Date(2026, time.March, 2, 6, 0, 0, 0, time.UTC)

// alert is one row of the table that get_alerts returns. It has as many columns as alerts
// of a real weather service do, most of which no question needs.
type alert struct {
	ID           string   `json:"id"`
	Event        string   `json:"event"`
	Severity     string   `json:"severity"`
	Urgency      string   `json:"urgency"`
	Certainty    string   `json:"certainty"`
	Status       string   `json:"status"`
	MessageType  string   `json:"message_type"`
	Category     string   `json:"category"`
	Response     string   `json:"response"`
	Area         string   `json:"area"`
	AreaDesc     string   `json:"area_desc"`
	Zones        []string `json:"zones"`
	Station      string   `json:"station"`
	Latitude     float64  `json:"latitude"`
	Longitude    float64  `json:"longitude"`
	Population   int      `json:"population"`
	Sender       string   `json:"sender"`
	SenderName   string   `json:"sender_name"`
	Sent         string   `json:"sent"`
	Effective    string   `json:"effective"`
	Onset        string   `json:"onset"`
	Expires      string   `json:"expires"`
	Ends         string   `json:"ends"`
	Headline     string   `json:"headline"`
	Description  string   `json:"description"`
	Instruction  string   `json:"instruction"`
	WindKmh      int      `json:"wind_kmh"`
	RainMm       float64  `json:"rain_mm"`
	TemperatureC float64  `json:"temperature_c"`
	Language     string   `json:"language"`
	Web          string   `json:"web"`
}

// hazard is a kind of weather that alerts are about.
type hazard struct {
	event, severity, certainty, response string
	wind, rain, temperature              int // its typical values
	what, advice                         string
}

func hazards() []hazard {
	return []hazard{
		{"Wind Advisory", "Moderate", "Likely", "Execute", 70, 0, 12, "strong gusty winds", "Tie down what the wind can carry and take care when driving a high vehicle."},
		{"High Wind Warning", "Severe", "Likely", "Prepare", 105, 2, 9, "damaging winds", "Stay away from trees and be ready for power cuts."},
		{"Flood Watch", "Moderate", "Possible", "Monitor", 25, 60, 10, "flooding caused by heavy rain", "Follow the forecast and be ready to leave low ground."},
		{"Flash Flood Warning", "Severe", "Observed", "Evacuate", 30, 95, 14, "sudden flooding of small rivers and roads", "Move to higher ground now. Never drive through water."},
		{"Winter Storm Warning", "Severe", "Likely", "Avoid", 55, 30, -4, "heavy snow and drifting", "Travel only if you must, with food, water and a lamp in the car."},
		{"Frost Advisory", "Minor", "Likely", "Execute", 8, 0, 0, "frost on plants and pipes", "Cover tender plants and bring animals in."},
		{"Heat Advisory", "Moderate", "Likely", "Avoid", 12, 0, 38, "high temperatures with high humidity", "Drink often, stay out of the sun and look after your neighbours."},
		{"Red Flag Warning", "Extreme", "Likely", "Prevent", 60, 0, 31, "dry air and wind that let fires spread fast", "Light no fire outdoors and be ready to leave."},
		{"Dense Fog Advisory", "Minor", "Observed", "Execute", 5, 0, 7, "sight below 400 metres", "Drive slowly with low beams and leave room."},
		{"Severe Thunderstorm Warning", "Severe", "Observed", "Shelter", 95, 35, 22, "thunderstorms with large hail", "Go inside and stay away from windows."},
		{"Coastal Flood Statement", "Minor", "Possible", "Monitor", 40, 15, 11, "high tides over the lowest roads", "Move cars away from the shore before high tide."},
		{"Tornado Warning", "Extreme", "Observed", "Shelter", 180, 40, 20, "a rotating storm that can form a tornado", "Take cover now in a cellar or an inner room."},
	}
}

func hazardEvents() []string {
	var names []string
	for _, h := range hazards() {
		names = append(names, h.event)
	}
	return names
}

func severities() []string { return []string{"Minor", "Moderate", "Severe", "Extreme"} }

// region is an area with alerts, by its two-letter code.
type region struct {
	code, name          string
	latitude, longitude float64
}

func regions() []region {
	return []region{
		{"AK", "Alaska", 64.2, -149.5}, {"AZ", "Arizona", 34.0, -111.1}, {"CA", "California", 36.8, -119.4},
		{"CO", "Colorado", 39.6, -105.8}, {"FL", "Florida", 27.7, -81.5}, {"GA", "Georgia", 32.2, -82.9},
		{"IL", "Illinois", 40.6, -89.4}, {"KS", "Kansas", 39.0, -98.5}, {"LA", "Louisiana", 31.2, -92.1},
		{"MA", "Massachusetts", 42.4, -71.4}, {"ME", "Maine", 45.3, -69.4}, {"MI", "Michigan", 44.3, -85.6},
		{"MN", "Minnesota", 46.7, -94.7}, {"NC", "North Carolina", 35.8, -79.0}, {"NV", "Nevada", 38.8, -116.4},
		{"NY", "New York", 43.0, -75.0}, {"OK", "Oklahoma", 35.0, -97.1}, {"OR", "Oregon", 43.8, -120.6},
		{"TX", "Texas", 31.0, -99.9}, {"WA", "Washington", 47.8, -120.7},
	}
}

func regionCodes() []string {
	var codes []string
	for _, r := range regions() {
		codes = append(codes, r.code)
	}
	return codes
}

// alertFilter says which alerts are wanted; an empty field wants any.
type alertFilter struct{ area, event, severity string }

// alerts gives the first rows alerts that pass the filter. Alert number i is the same in
// every call, whatever the filter.
func alerts(filter alertFilter, rows int) []alert {
	kinds, areas := hazards(), regions()
	found := make([]alert, 0, min(rows, maxAlerts))
	for i := range maxAlerts {
		if len(found) == rows {
			break
		}
		// The three draws that the filter looks at come first: a skipped alert costs no more.
		random := rand.New(rand.NewPCG(uint64(i), 0x77656972))
		area, kind := areas[random.IntN(len(areas))], kinds[random.IntN(len(kinds))]
		severity := kind.severity
		if random.IntN(5) == 0 { // one in five is a step milder than its kind
			severity = severities()[max(0, slices.Index(severities(), severity)-1)]
		}
		if (filter.area == "" || filter.area == area.code) && (filter.event == "" || filter.event == kind.event) &&
			(filter.severity == "" || filter.severity == severity) {
			found = append(found, newAlert(i, random, area, kind, severity))
		}
	}
	return found
}

func newAlert(i int, random *rand.Rand, area region, kind hazard, severity string) alert {
	urgency := []string{"Immediate", "Expected", "Future"}[random.IntN(3)]
	sent := weatherEpoch.Add(time.Duration(random.IntN(72*60)) * time.Minute)
	onset := sent.Add(time.Duration(random.IntN(12)) * time.Hour)
	ends := onset.Add(time.Duration(3+random.IntN(33)) * time.Hour)
	county := []string{"North", "South", "East", "West", "Central", "Coastal", "Upper", "Lower"}[random.IntN(8)] + " " + area.name
	zones := make([]string, 1+random.IntN(4))
	for z := range zones {
		zones[z] = fmt.Sprintf("%sZ%03d", area.code, 1+random.IntN(120))
	}
	wind := max(0, kind.wind+random.IntN(31)-15)
	rain := max(0, float64(kind.rain*10+random.IntN(201)-100)/10)
	if kind.rain == 0 {
		rain = 0
	}
	temperature := float64(kind.temperature*10+random.IntN(81)-40) / 10
	office := fmt.Sprintf("Weather Office %s", area.name)
	return alert{
		ID:          fmt.Sprintf("urn:demo:alert:%05d", i),
		Event:       kind.event,
		Severity:    severity,
		Urgency:     urgency,
		Certainty:   kind.certainty,
		Status:      "Actual",
		MessageType: []string{"Alert", "Alert", "Update"}[random.IntN(3)],
		Category:    "Met",
		Response:    kind.response,
		Area:        area.code,
		AreaDesc:    county,
		Zones:       zones,
		Station:     stationID(area.code, random.IntN(stationsEach)),
		Latitude:    area.latitude + float64(random.IntN(300)-150)/100,
		Longitude:   area.longitude + float64(random.IntN(300)-150)/100,
		Population:  500 + random.IntN(900_000),
		Sender:      "alerts@" + strings.ToLower(area.code) + ".weather.example",
		SenderName:  office,
		Sent:        sent.Format(time.RFC3339),
		Effective:   sent.Format(time.RFC3339),
		Onset:       onset.Format(time.RFC3339),
		Expires:     onset.Add(6 * time.Hour).Format(time.RFC3339),
		Ends:        ends.Format(time.RFC3339),
		Headline:    fmt.Sprintf("%s until %s by %s", kind.event, ends.Format("January 2 15:04 MST"), office),
		Description: fmt.Sprintf("* WHAT: %s. Gusts to %d km/h, %.1f mm of rain and %.1f degrees are expected.\n"+
			"* WHERE: %s, zones %s.\n* WHEN: from %s to %s.\n* IMPACTS: expect %s in the whole area.",
			strings.ToUpper(kind.what[:1])+kind.what[1:], wind, rain, temperature,
			county, strings.Join(zones, ", "), onset.Format("Monday 15:04"), ends.Format("Monday 15:04"), kind.what),
		Instruction:  kind.advice,
		WindKmh:      wind,
		RainMm:       rain,
		TemperatureC: temperature,
		Language:     "en-US",
		Web:          fmt.Sprintf("https://weather.example/alerts/%05d", i),
	}
}

// station is a place where the weather is observed.
type station struct {
	ID         string  `json:"id" jsonschema:"identifier of the station, such as CA-1"`
	Name       string  `json:"name"`
	Area       string  `json:"area" jsonschema:"two-letter code of the area"`
	Latitude   float64 `json:"latitude"`
	Longitude  float64 `json:"longitude"`
	ElevationM int     `json:"elevation_m"`
}

func stationID(area string, n int) string { return fmt.Sprintf("%s-%d", area, n+1) }

func stations() []station {
	var all []station
	for i, r := range regions() {
		for n := range stationsEach {
			all = append(all, station{
				ID:         stationID(r.code, n),
				Name:       r.name + " " + []string{"Airport", "Observatory", "Harbor"}[n],
				Area:       r.code,
				Latitude:   r.latitude + float64(n-1)/2,
				Longitude:  r.longitude + float64(n-1)/3,
				ElevationM: (i*173 + n*311) % 2400,
			})
		}
	}
	return all
}

// forecastDay is the weather of one day at a station.
type forecastDay struct {
	Date       string  `json:"date" jsonschema:"day, as YYYY-MM-DD"`
	Summary    string  `json:"summary"`
	LowC       float64 `json:"low_c"`
	HighC      float64 `json:"high_c"`
	RainChance int     `json:"rain_chance_percent"`
	WindKmh    int     `json:"wind_kmh"`
}

func forecast(at station, days int) []forecastDay {
	random := rand.New(rand.NewPCG(uint64(at.Latitude*100), uint64(-at.Longitude*100)))
	out := make([]forecastDay, days)
	base := 30 - at.Latitude/2 - float64(at.ElevationM)/200
	for i := range out {
		low := base + float64(random.IntN(80)-40)/10
		chance := random.IntN(101)
		summary := "sunny"
		switch {
		case chance > 80:
			summary = "rain"
		case chance > 55:
			summary = "showers"
		case chance > 30:
			summary = "cloudy"
		}
		out[i] = forecastDay{
			Date:       weatherEpoch.AddDate(0, 0, i).Format(time.DateOnly),
			Summary:    summary,
			LowC:       round1(low),
			HighC:      round1(low + 4 + float64(random.IntN(80))/10),
			RainChance: chance,
			WindKmh:    random.IntN(60),
		}
	}
	return out
}

// round1 keeps one digit after the point.
func round1(v float64) float64 { return float64(int(v*10)) / 10 }
