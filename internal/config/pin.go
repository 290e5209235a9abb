package config

import (
	"encoding/hex"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Pin names the catalog that is expected: every definition of every server, byte
// for byte.
type Pin struct {
	ExpectedHash string  `key:"expected_hash" doc:"The hash that weir ls --hash printed. Empty pins nothing."`
	Mode         PinMode `key:"mode" default:"warn" enum:"warn,strict" doc:"While the catalog is another: warn says so in the log; strict refuses to execute, read or render anything too."`
}

// PinMode is the treatment of a catalog that is not the pinned one.
type PinMode string

// What happens then.
const (
	PinWarn   PinMode = "warn"
	PinStrict PinMode = "strict"
)

func checkPin(d *strict.Decoder, c *Config) {
	const key = "pin.expected_hash"
	sum, err := hex.DecodeString(c.Pin.ExpectedHash)
	switch {
	case c.Pin.ExpectedHash == "" && d.Set("pin.mode"):
		d.Warn(d.At("pin.mode"), "pin.mode", "pin.mode has no effect without pin.expected_hash; weir ls --hash prints it")
	case c.Pin.ExpectedHash != "" && (err != nil || len(sum) != 32):
		d.Fail(d.At(key), key, "pin.expected_hash must be the 64 hexadecimal digits that weir ls --hash prints, not %q", strict.Clip(c.Pin.ExpectedHash))
	}
}
