package columnar

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestNoCodec: a program without a codec recognizes the forms, and each use is an error that names the import.
func TestNoCodec(t *testing.T) {
	stream := append(bytes.Clone(MagicStream), make([]byte, 12)...)
	if !Is(stream) || Is([]byte(`[{"a":1},{"a":2}]`)) || Supported() {
		t.Fatalf("an Arrow stream is recognized: %v, a codec is there: %v", Is(stream), Supported())
	}
	c := Registered()
	_, arrow := c.WriteArrow(io.Discard, Rows{})
	_, parquet := c.WriteParquet(io.Discard, Rows{}, nil)
	_, count := c.CountArrow(bytes.NewReader(stream))
	for name, err := range map[string]error{"WriteArrow": arrow, "WriteParquet": parquet, "CountArrow": count, "Read": c.Read(stream, Sink{})} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), `import _ "github.com/weir-mcp/weir/s2sp/columnar"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
