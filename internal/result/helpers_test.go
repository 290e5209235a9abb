package result

import (
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

type shaped struct {
	Content []struct {
		Type, Text string
	}
	StructuredContent json.RawMessage
	IsError           bool
	Meta              map[string]json.RawMessage `json:"_meta"`
	env               testEnvelope
}

type testEnvelope struct {
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

func textResult(texts ...string) string {
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, `{"type":"text","text":`+string(rawjson.Quote(text))+`}`)
	}
	return `{"content":[` + strings.Join(blocks, ",") + `]}`
}
