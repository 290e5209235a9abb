package calltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
)

// Answer is the result of a call.
type Answer struct {
	Content []struct {
		Type, Text string
	}
	StructuredContent json.RawMessage
	IsError           bool
	Meta              map[string]json.RawMessage `json:"_meta"`
	Env               Envelope                   `json:"-"`
}

// Envelope is what a gateway says of a result.
type Envelope struct {
	Status     string
	Summary    string
	Facts      []string
	Artifacts  []artifact.Artifact
	Views      []json.RawMessage
	Provenance map[string]any
	Stats      struct {
		Triggered      bool
		Strategy       string
		ThresholdChars int     `json:"threshold_chars"`
		OriginalChars  int     `json:"original_chars"`
		OriginalTokens *int    `json:"original_tokens"`
		SummaryChars   int     `json:"summary_chars"`
		SummaryTokens  *int    `json:"summary_tokens"`
		ArtifactRef    *string `json:"artifact_ref"`
	} `json:"firewall_stats"`
}

// read parses a tool result with its envelope.
func read(t testing.TB, out []byte) Answer {
	t.Helper()
	var s Answer
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	raw := s.Meta[result.MetaEnvelope]
	if raw == nil && rawjson.Get(s.StructuredContent, "firewall_stats") != nil {
		raw = s.StructuredContent
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &s.Env); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Failed is an error in a result.
type Failed struct {
	Error, Message, Path string
	Retryable            *bool
	Details              struct {
		ToolID       string `json:"tool_id"`
		Schema       json.RawMessage
		Example      json.RawMessage
		SchemaHandle string `json:"schema_handle"`
		Problems     []catalog.Problem
		Nearest      []string
	}
}

// Failure returns the error of a result that must be one.
func Failure(t testing.TB, s Answer) Failed {
	t.Helper()
	var e Failed
	if !s.IsError || len(s.Content) != 1 {
		t.Fatalf("no error: %+v", s)
	}
	if err := json.Unmarshal([]byte(s.Content[0].Text), &e); err != nil || e.Retryable == nil {
		t.Fatalf("%v in %s", err, s.Content[0].Text)
	}
	return e
}

// ErrorText returns all that a client sees of a protocol error.
func ErrorText(err error) string {
	var e *mcp.Error
	if errors.As(err, &e) {
		return fmt.Sprint(e.Kind, e.Message, string(e.Data))
	}
	return fmt.Sprint(err)
}

// KindOf returns the kind of a protocol error; that of any other error is internal.
func KindOf(err error) mcp.Kind {
	var e *mcp.Error
	if !errors.As(err, &e) {
		return mcp.KindInternal
	}
	return e.Kind
}
