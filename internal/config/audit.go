package config

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Audit configures the audit log.
type Audit struct {
	Dir      string `key:"dir" doc:"Folder of the audit log; a relative one is relative to this file. Only one gateway at a time may write to it. Default: no audit log."`
	Args     string `key:"args" default:"hash" enum:"none,hash,redacted,full" doc:"What the log has of arguments. hash: their HMAC, by which only the holder of the key can confirm arguments. redacted: the arguments without the secrets that weir knows. full: the arguments."`
	Required bool   `key:"required" default:"false" doc:"A call waits until the record of its begin is on disk, and is refused (audit_unavailable) while that fails. Default: records are dropped then, and counted."`
	Key      Secret `key:"key" doc:"A secret of 32 characters or more, best as ${VAR}, from which the keys of signatures and of argument hashes are derived. Default: the file key in dir, which weir makes."`
	Keep     string `key:"keep" doc:"How long records are kept, such as 400d or 48h. Default: for ever."`
	MaxBytes Bytes  `key:"max_bytes" default:"0" min:"0" doc:"How many bytes the files of the log have together, 4MB or more. The oldest files are deleted over it, which a record tells; 0 sets no bound."`
}

// minAuditKey is the shortest secret that signatures may come from.
const minAuditKey = 32

// minAuditBytes is the smallest bound of the log. Records of calls have up to 64 KB of arguments.
const minAuditBytes = 4 << 20

// Kept returns how long records are kept; 0 is for ever.
func (a *Audit) Kept() time.Duration {
	d, _ := parseDays(a.Keep)
	return d
}

// parseDays reads a duration that may be in days.
func parseDays(text string) (time.Duration, bool) {
	if text == "" {
		return 0, true
	}
	if n, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(n, 10, 16)
		return time.Duration(days) * 24 * time.Hour, err == nil && days > 0
	}
	d, ok := strict.ParseDuration(text)
	return d, ok && d >= time.Hour
}

func checkAudit(d *decoder, c *Config) {
	const key = "audit"
	a := &c.Audit
	if !d.Set(key) {
		return
	}
	if a.Dir == "" {
		d.Fail(d.At(key), key, "audit needs dir, the folder of the log")
	} else if !filepath.IsAbs(a.Dir) && d.dir != "" {
		a.Dir = filepath.Join(d.dir, a.Dir)
	}
	if n := len(a.Key.Reveal()); n > 0 && n < minAuditKey {
		d.Fail(d.At("audit.key"), "audit.key", "audit.key must have %d characters or more, not %d: signatures are worth what it is (openssl rand -base64 32 makes one)", minAuditKey, n)
	}
	if a.MaxBytes > 0 && a.MaxBytes < minAuditBytes {
		d.Fail(d.At("audit.max_bytes"), "audit.max_bytes", "audit.max_bytes must be 4MB or more, or 0 for no bound, not %d bytes", int64(a.MaxBytes))
	}
	if _, ok := parseDays(a.Keep); !ok {
		d.Fail(d.At("audit.keep"), "audit.keep", "audit.keep must be a number of days such as 400d, or a duration of an hour or more, not %q", strict.Clip(a.Keep))
	}
}
