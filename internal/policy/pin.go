package policy

import (
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
)

// Pin converts a configuration's pin, and its guard of hidden text.
func Pin(c *config.Config) dispatch.Pin {
	return dispatch.Pin{Hash: strings.ToLower(c.Pin.ExpectedHash), Strict: c.Pin.Mode == config.PinStrict, Seen: c.Guards.Unicode == config.UnicodeRefuse}
}
