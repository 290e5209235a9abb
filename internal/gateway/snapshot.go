package gateway

import (
	"errors"
	"os"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/part"
)

// OpenSnapshot reads a catalog snapshot. It returns nil for an empty path.
func OpenSnapshot(path string, c *config.Config) (*metatool.SnapshotFile, error) {
	if path == "" {
		return nil, nil
	}
	data, err := place.ReadFile(path)
	if err != nil {
		var cause *os.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, part.Setupf("--catalog %s cannot be read: %w", path, err)
	}
	f, err := metatool.ReadSnapshotFile(path, data)
	if err != nil {
		return nil, part.Setupf("--catalog: %w", err)
	}
	if _, taken := c.Server(f.Name()); taken {
		return nil, part.Setupf("--catalog %s is named as mcpServers.%s is: rename the file, or the server", path, f.Name())
	}
	return f, nil
}
