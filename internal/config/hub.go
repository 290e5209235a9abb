package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/ownership"
)

// Hub is the A2C-SMCP server that runs with weir. Computers and Agents meet there in offices.
type Hub struct {
	Enabled       bool           `key:"enabled" doc:"Serve /socket.io/ and /smcp/. Default: true where hub is there."`
	Office        string         `key:"office" default:"weir" doc:"The office in which the gateway itself is the agent: the MCP servers of its Computers become upstreams. An empty text: none."`
	Listen        string         `key:"listen" doc:"An address and port of the hub's own, in addition to weir's listener. Needed for tls."`
	Namespace     string         `key:"namespace" default:"/smcp" doc:"The Socket.IO namespace, for a deployment whose Computers and agents use another one."`
	StrictVersion bool           `key:"strict_version" default:"false" doc:"Refuse peers that say no a2c_version."`
	Tokens        []HubToken     `key:"tokens" empty:"refused" doc:"The secrets of peers that may connect. Without any: peers on this machine, and Computers with a known key. If auth.tokens are set, peers on this machine need one without agents."`
	Issuers       []HubIssuer    `key:"issuers" empty:"same" doc:"Peers that may connect with tokens of auth.issuers. The first entry that fits a token decides."`
	Computers     []*HubComputer `key:"computers" empty:"same" name:"Name" doc:"Computers whose names are bound to a key: only its holder may use the name."`
	TLS           HubTLS         `key:"tls" doc:"Certificate of hub.listen, and of weir hub."`
	MaxPayload    Bytes          `key:"max_payload_bytes" default:"16MB" min:"65536" doc:"Largest message."`
	MaxPeers      int            `key:"max_peers" default:"20000" min:"1" doc:"Most peers that are let in. Connections that have not yet identified themselves count in a small pool of their own."`
	MaxComputers  int            `key:"max_computers" default:"256" min:"1" doc:"Most Computers in one office."`
	MaxCalls      int            `key:"max_calls" default:"256" min:"1" doc:"Most calls of one agent that wait for an answer."`
}

// HubToken is one secret of the hub. The configuration holds its hash, not the secret.
type HubToken struct {
	Name    string   `key:"name" doc:"Who it belongs to, for the log."`
	SHA256  string   `key:"sha256" doc:"SHA-256 of the token in hexadecimal: printf %s TOKEN | sha256sum"`
	Role    string   `key:"role" enum:"agent,computer" doc:"The only role that it allows. Default: both."`
	Offices []string `key:"offices" empty:"refused" doc:"Patterns of the offices that it opens; * stands for any text without a slash. Default: all."`
}

// HubIssuer admits callers of an issuer to the hub.
type HubIssuer struct {
	Issuer     string   `key:"issuer" doc:"The name of an issuer of auth.issuers."`
	Principals []string `key:"principals" empty:"refused" doc:"Principals whom the entry fits, such as NAME:SUBJECT. Without principals and groups it fits all tokens of the issuer."`
	Groups     []string `key:"groups" empty:"refused" doc:"Groups whose members it fits."`
	Role       string   `key:"role" enum:"agent,computer" doc:"The only role that it allows. Default: both."`
	Offices    []string `key:"offices" empty:"refused" doc:"Patterns of the offices that it opens; * stands for any text without a slash. Default: all."`
}

// HubComputer binds a Computer's name to a key.
type HubComputer struct {
	// Name is the key in computers.
	Name    string
	Key     string   `key:"key" doc:"The public key that weir computer --show-key prints. Results of this Computer must be signed with it."`
	Offices []string `key:"offices" empty:"refused" doc:"Patterns of the offices that it may join. Default: all."`
}

// HubTLS is a certificate.
type HubTLS struct {
	Cert string `key:"cert" doc:"PEM file with the certificate and those between it and its authority."`
	Key  string `key:"key" doc:"PEM file with the private key."`
}

// RemoteHub is a hub elsewhere. The gateway is the agent of one of its offices.
type RemoteHub struct {
	// Name is the key in hubs.
	Name      string
	URL       string            `key:"url" doc:"The hub's URL, such as https://hub.example."`
	Office    string            `key:"office" doc:"The office to join."`
	Namespace string            `key:"namespace" default:"/smcp" doc:"The Socket.IO namespace of the hub."`
	Token     Secret            `key:"token" doc:"The token to show, best as ${VAR}."`
	CA        string            `key:"ca" doc:"PEM file with the authority of the hub's certificate, where the system does not know it."`
	Keys      map[string]string `key:"keys" doc:"Public keys of Computers by name: their results must be signed."`
}

// publicKey reads a public key in its text form.
func publicKey(text string) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return fmt.Errorf("a public key is 32 bytes in base64: what weir computer --show-key prints")
	}
	return nil
}

func (d *decoder) checkHubs(c *Config) {
	h := &c.Hub
	h.Enabled = d.Set("hub") && (h.Enabled || !d.Set("hub.enabled"))
	if !isHubNamespace(h.Namespace) {
		d.Fail(d.At("hub.namespace"), "hub.namespace", noHubNamespace, "hub.namespace", strict.Clip(h.Namespace))
	}
	seen := map[string]bool{}
	for i, t := range h.Tokens {
		at := fmt.Sprintf("hub.tokens[%d]", i)
		raw, err := hex.DecodeString(t.SHA256)
		switch {
		case t.Name == "":
			d.Fail(d.At(at), at, "%s has no name", at)
		case seen[t.Name]:
			d.Fail(d.At(at), at, "there are two hub.tokens with the name %q", strict.Clip(t.Name))
		case err != nil || len(raw) != sha256.Size:
			d.Fail(d.At(at), at+".sha256", "%s.sha256 must be 64 hexadecimal digits: printf %%s TOKEN | sha256sum", at)
		case string(raw) == string(sum(nil)):
			d.Fail(d.At(at), at+".sha256", "%s.sha256 is the hash of no token at all", at)
		}
		seen[t.Name] = true
		checkOffices(d.Decoder, t.Offices, at)
	}
	for i, entry := range h.Issuers {
		at := fmt.Sprintf("hub.issuers[%d]", i)
		switch known := slices.ContainsFunc(c.Auth.Issuers, func(i *Issuer) bool { return i.Name == entry.Issuer }); {
		case entry.Issuer == "":
			d.Fail(d.At(at), at, "%s.issuer is missing; write the name of an issuer of auth.issuers", at)
		case !known:
			d.Fail(d.At(at+".issuer"), at+".issuer", "%s.issuer: auth.issuers has no %q; add it there", at, strict.Clip(entry.Issuer))
		}
		checkOffices(d.Decoder, entry.Offices, at)
	}
	folded := map[string]string{}
	for _, comp := range h.Computers {
		at := "hub.computers." + comp.Name
		if other, twice := folded[ownership.Fold(comp.Name)]; twice {
			d.Fail(d.At(at), at, "%s: the names %q and %q count as one; give one of the Computers another", at, strict.Clip(other), strict.Clip(comp.Name))
		}
		folded[ownership.Fold(comp.Name)] = comp.Name
		checkNamesOf(d.Decoder, c, comp.Name)
		if err := publicKey(comp.Key); err != nil {
			d.Fail(d.At(at), at+".key", "%s.key: %v", at, err)
		}
		checkOffices(d.Decoder, comp.Offices, at)
	}
	if (h.TLS.Cert == "") != (h.TLS.Key == "") {
		d.Fail(d.At("hub.tls"), "hub.tls", "hub.tls needs both cert and key")
	}
	for _, file := range []*string{&h.TLS.Cert, &h.TLS.Key} {
		*file = d.absolute(*file)
	}
	for _, r := range c.Hubs {
		at := "hubs." + r.Name
		if r.URL == "" {
			d.Fail(d.At(at), at, "%s has no url", at)
		} else {
			d.CheckURL(r.URL, at+".url")
		}
		if !isHubNamespace(r.Namespace) {
			d.Fail(d.At(at+".namespace"), at+".namespace", noHubNamespace, at+".namespace", strict.Clip(r.Namespace))
		}
		if r.Office == "" {
			d.Fail(d.At(at), at, "%s has no office", at)
		}
		for name, key := range r.Keys {
			if err := publicKey(key); err != nil {
				d.Fail(d.At(at+".keys."+name), at+".keys."+name, "%s.keys.%s: %v", at, name, err)
			}
		}
		r.CA = d.absolute(r.CA)
	}
}

// checkNamesOf warns of servers that have the names of a Computer's servers. The configuration
// comes first, so the Computer's servers are left out.
func checkNamesOf(d *strict.Decoder, c *Config, computer string) {
	own := ownership.Fold(computer)
	for _, s := range c.Servers {
		name := ownership.Fold(s.Name)
		if name == own || strings.HasPrefix(name, own+"-") || strings.HasPrefix(name, own+".") {
			at := strict.Join("mcpServers", s.Name)
			d.Warn(d.At(at), at, "%s has a name of the Computer %q (hub.computers), whose server of that name is left out", at, strict.Clip(computer))
		}
	}
}

func sum(data []byte) []byte {
	s := sha256.Sum256(data)
	return s[:]
}

// absolute makes a relative path relative to the configuration's folder.
func (d *decoder) absolute(file string) string {
	if file == "" || filepath.IsAbs(file) || d.dir == "" {
		return file
	}
	return filepath.Join(d.dir, file)
}

func checkOffices(d *strict.Decoder, patterns []string, at string) {
	for i, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			key := fmt.Sprintf("%s.offices[%d]", at, i)
			d.Fail(d.At(key), key, "%s: %q is no pattern", key, strict.Clip(p))
		}
	}
}

// isHubNamespace reports whether a Socket.IO namespace can belong to a hub. A comma ends a namespace
// on the wire, and / belongs to no protocol.
func isHubNamespace(name string) bool {
	return len(name) > 1 && len(name) <= 100 && name[0] == '/' && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(",?#", r) })
}

const noHubNamespace = "%s must be a Socket.IO namespace such as /smcp, not %q"
