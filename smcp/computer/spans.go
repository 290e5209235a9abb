package computer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-mcp/weir/internal/config/otlp"
	"github.com/weir-mcp/weir/internal/observe/trace"
)

// sendSpans applies the section otlp of a configuration, nil if it has none.
func sendSpans(by *trace.Tracer, section json.RawMessage, lookupEnv func(string) (string, bool)) error {
	var to trace.Settings
	if section != nil {
		read, err := otlp.Read(section, lookupEnv)
		if err != nil {
			return fmt.Errorf("spans are not sent: %w", err)
		}
		to = read.Settings()
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
