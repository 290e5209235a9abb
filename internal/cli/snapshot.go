package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
)

// load reads the configuration that serve was told to use. With a snapshot file
// and no --config there is none: the file is all there is.
func (a *app) load(path, snapshot string, opts config.Options) (string, *config.Config, error) {
	if snapshot != "" && path == "" {
		c, warnings, err := config.Parse("", []byte("mcpServers: {}\n"), opts)
		if err == nil {
			return "", c, nil
		}
		a.warn(warnings)
		return "", nil, err
	}
	path, err := findConfig(path)
	if err != nil {
		return "", nil, err
	}
	c, warnings, err := config.Load(path, opts)
	if of := ofAgent(path, err); of != nil {
		return path, nil, of
	}
	a.warn(warnings)
	return path, c, err
}

// openSnapshot reads a catalog snapshot, nil where there is no path.
func openSnapshot(path string, c *config.Config) (*gateway.SnapshotFile, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		var cause *os.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, failf(exitUsage, "--catalog %s cannot be read: %w", path, err)
	}
	f, err := gateway.ReadSnapshotFile(path, data)
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("--catalog: %w", err)}
	}
	if _, taken := c.Server(f.Name()); taken {
		return nil, failf(exitUsage, "--catalog %s is named as mcpServers.%s is: rename the file, or the server", path, f.Name())
	}
	return f, nil
}

// serveFile serves the entries of a snapshot file beside those of the upstreams;
// nil is none.
func (e *engine) serveFile(f *gateway.SnapshotFile) {
	if f == nil {
		return
	}
	e.file.Store(f)
	e.live.Update(f.Listing())
	e.owners.serves(f, e.Snapshot().Catalog)
}

// followConfig watches the configuration until ctx ends, where there is one.
func (a *app) followConfig(ctx context.Context, c *config.Config, path string, opts config.Options, e *engine, f face, logger *logging) {
	if path == "" {
		return
	}
	a.watch(ctx, c, opts, e, f, logger)
}
