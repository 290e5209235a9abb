package telemetry

// SpanFigures say what became of spans.
type SpanFigures struct {
	Sent     int64 // the collector took them
	Dropped  int64 // they found no room in the queue
	Failed   int64 // the collector was not reached, or refused the request
	Rejected int64 // the collector refused single spans
}
