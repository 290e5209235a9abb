package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// TLS is the certificate of the listener.
type TLS struct {
	Cert     string `key:"cert" doc:"PEM file with the certificate and those between it and its authority. The files are read again when they change."`
	Key      string `key:"key" doc:"PEM file with the private key."`
	ClientCA string `key:"client_ca" doc:"PEM file with the authorities of client certificates. A certificate names a caller: cert: and its URI (SPIFFE) or its subject. Callers without one show a token."`
	ACME     ACME   `key:"acme" doc:"Takes certificates from Let's Encrypt instead of cert and key. weir must be reached at port 443 under each of the domains (TLS-ALPN)."`
}

// ACME is how certificates are obtained.
type ACME struct {
	Domains   []string `key:"domains" empty:"same" doc:"Host names to take certificates for. By setting it, you accept the terms of the authority."`
	Dir       string   `key:"dir" doc:"Folder for the account's key and the certificates; a relative one is relative to this file."`
	Email     string   `key:"email" doc:"Where the authority may write about certificates."`
	Directory string   `key:"directory" doc:"URL of another ACME authority. Default: Let's Encrypt."`
}

// Enabled reports whether the listener speaks TLS.
func (t *TLS) Enabled() bool { return t.Cert != "" || len(t.ACME.Domains) > 0 }

// checkTLS must run before the checks that ask whether callers are known.
func checkTLS(d *decoder, c *Config) {
	const key = "tls"
	t := &c.TLS
	switch acme := len(t.ACME.Domains) > 0; {
	case !d.Set(key):
		return
	case (t.Cert == "") != (t.Key == ""):
		d.Fail(d.At(key), key, "tls needs both cert and key")
	case acme && t.Cert != "":
		d.Warn(d.At(key), key, "tls has both cert and acme: cert is used")
	case acme && t.ACME.Dir == "":
		d.Fail(d.At("tls.acme"), "tls.acme", "tls.acme needs dir, a folder for the certificates: without it each start would ask for new ones, which the authority limits")
	case !t.Enabled():
		d.Fail(d.At(key), key, "tls needs cert and key, or acme.domains")
	}
	if slices.ContainsFunc(t.ACME.Domains, func(s string) bool { return s == "" || strings.ContainsAny(s, "*/: ") }) {
		d.Fail(d.At("tls.acme.domains"), "tls.acme.domains", "tls.acme.domains must be host names such as weir.example.com")
	}
	if t.ACME.Directory != "" {
		checkIssuerURL(d.Decoder, t.ACME.Directory, "tls.acme.directory", false)
	}
	for _, file := range []*string{&t.Cert, &t.Key, &t.ClientCA, &t.ACME.Dir} {
		if *file != "" && !filepath.IsAbs(*file) && d.dir != "" {
			*file = filepath.Join(d.dir, *file)
		}
	}
	c.Auth.certificates = t.ClientCA != ""
}
