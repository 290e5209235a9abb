package config

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
)

// Audit configures the audit log.
type Audit struct {
	Dir      string `key:"dir" doc:"Folder of the audit log; a relative one is relative to this file. Only one gateway at a time may write to it. Default: no audit log."`
	Args     string `key:"args" default:"hash" enum:"none,hash,redacted,full" doc:"What the log has of arguments. hash: their HMAC, by which only the holder of the key can confirm arguments. redacted: the arguments without the secrets that weir knows. full: the arguments."`
	Required bool   `key:"required" default:"false" doc:"A call waits until the record of its begin is on disk, and is refused (audit_unavailable) while that fails. Default: records are dropped then, and counted."`
	Key      Secret `key:"key" doc:"A secret of 32 characters or more, best as ${VAR}, from which the keys of signatures and of argument hashes are derived. Default: the file key in dir, which weir makes."`
	Keep     string `key:"keep" doc:"How long records are kept, such as 400d or 48h. Default: for ever."`
	MaxBytes Bytes  `key:"max_bytes" default:"0" min:"0" doc:"How many bytes the files of the log have together, 4MB or more. The oldest files are deleted over it, which a record tells; 0 sets no bound."`
	Syslog   Syslog `key:"syslog" doc:"A collector that gets each record as well, when it is in the log."`
}

// Syslog configures the collector of records.
type Syslog struct {
	URL    string `key:"url" doc:"udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT of a collector that takes syslog messages (RFC 5424; on streams with octet counting). udp and tcp work for addresses that are not public."`
	Format string `key:"format" default:"json" enum:"json,ocsf" doc:"What a message holds. json: the line of the log. ocsf: the event API Activity (6003) of OCSF 1.3."`
	CA     string `key:"ca" doc:"A file of the authorities whose certificate a tls collector has. Default: those of the system."`
	Cert   string `key:"cert" doc:"A file with a client certificate for tls, with audit.syslog.key."`
	Key    string `key:"key" doc:"The file of the private key of audit.syslog.cert."`
}

// Network returns "udp", "tcp" or "tls", and the HOST:PORT there; "" without a collector.
func (s *Syslog) Network() (network, at string) {
	network, at, _ = strings.Cut(s.URL, "://")
	return network, at
}

func (s *Syslog) check(d *decoder) {
	const key = "audit.syslog"
	if !d.Set(key) {
		return
	}
	network, at := s.Network()
	host, port, err := net.SplitHostPort(at)
	ip, known := address.ParseIP(host)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	switch {
	case !slices.Contains([]string{"udp", "tcp", "tls"}, network) || err != nil || host == "" || notNumber != nil || number == 0 || strings.ContainsAny(at, "/@?#"):
		d.Fail(d.At(key+".url"), key+".url", "audit.syslog.url must be udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT, not %q", strict.Clip(s.URL))
	case network != "tls" && known && !address.Private(ip) && !ip.IsLoopback():
		d.Fail(d.At(key+".url"), key+".url", "audit.syslog.url leads to the public address %s without TLS; use tls", ip)
	case network != "tls" && s.CA+s.Cert+s.Key != "":
		d.Fail(d.At(key), key, "audit.syslog.ca, cert and key are for tls, and audit.syslog.url has %s", network)
	case (s.Cert == "") != (s.Key == ""):
		d.Fail(d.At(key), key, "audit.syslog.cert and audit.syslog.key belong together: the client's certificate and its private key")
	}
	for _, file := range []*string{&s.CA, &s.Cert, &s.Key} {
		if *file != "" && !filepath.IsAbs(*file) && d.dir != "" {
			*file = filepath.Join(d.dir, *file)
		}
	}
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
	a.Syslog.check(d)
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
