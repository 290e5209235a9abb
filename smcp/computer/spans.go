package computer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/trace"
)

// sendSpans applies the section otlp of a configuration, nil if it has none. It is read as weir.yaml
// is, with variables of the environment in place of ${NAME}.
func sendSpans(by *trace.Tracer, otlp json.RawMessage, lookupEnv func(string) (string, bool)) error {
	var to trace.Settings
	if otlp != nil {
		read, _, err := config.Parse("weir.yaml", rawjson.Object("otlp", otlp), config.Options{LookupEnv: lookupEnv})
		if err != nil {
			return fmt.Errorf("spans are not sent: %w", err)
		}
		o := &read.OTLP
		to = trace.Settings{URL: o.URL, Headers: map[string]string{}, Service: o.ServiceName, Sample: o.Sample, Timeout: o.Timeout}
		for name, value := range o.Headers {
			to.Headers[name] = value.Reveal()
		}
	}
	return by.Configure(to)
}

// failureType returns the error type of a span whose call ended with err, "" without an error.
func failureType(err error) string {
	var f *fault
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errAgentCancelled):
		return "cancelled"
	case errors.As(err, &f):
		return strconv.Itoa(f.code)
	}
	return trace.ErrorType(err)
}
