package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/link"
)

// Cluster configures a gateway that shares its store with others.
type Cluster struct {
	Name      string        `key:"name" default:"weir" doc:"The cluster's name, of letters, digits, - and _. Several clusters may use one NATS under different names."`
	Key       Secret        `key:"key" doc:"The secret that all nodes share: 32 bytes in base64, best as ${secret:NAME} or ${VAR}; openssl rand -base64 32 makes one. Certificates of nodes, ids of sessions and secrets of agents come from it."`
	OldKeys   []Secret      `key:"old_keys" empty:"same" doc:"Former keys, and the next one before it is key everywhere: certificates that come from them are trusted, and ids of sessions and states that they have sealed open. weir seals with key alone."`
	Node      string        `key:"node" doc:"The node's name, which no other has. It may have variables, as listen and advertise. Default: the host name."`
	Listen    string        `key:"listen" default:"0.0.0.0:8090" doc:"The address at which other nodes reach this one, with certificates that come from the key. They send it the requests of its sessions."`
	Advertise string        `key:"advertise" doc:"The HOST:PORT at which other nodes reach listen. Default: listen, and where that is 0.0.0.0 or a name, the host of node with its port."`
	Drain     time.Duration `key:"drain" default:"30s" min:"0s" doc:"How long a node that ends waits for its running calls, at least 4.5s. New requests go to other nodes meanwhile."`
}

// Keys returns the parsed key and old keys of a checked configuration; key is nil without one.
func (c *Cluster) Keys() (key *link.Key, old []*link.Key) {
	if c.Key == "" {
		return nil, nil
	}
	key, _ = link.Parse(c.Key.Reveal())
	for _, text := range c.OldKeys {
		if k, err := link.Parse(text.Reveal()); err == nil {
			old = append(old, k)
		}
	}
	return key, old
}

// isPort reports whether a text is the number of a port, least or higher.
func isPort(text string, least uint64) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n >= least
}

// checkCluster checks the keys of a cluster and fills in those that follow from others.
func checkCluster(d *strict.Decoder, c *Config) {
	k := &c.Cluster
	if !c.Store.Shared() {
		if d.Set("cluster") {
			d.Warn(d.At("cluster"), "cluster", "cluster has no effect without store: nats://HOST:PORT")
		}
		if c.Artifacts.Backup {
			d.Warn(d.At("artifacts.backup"), "artifacts.backup", "artifacts.backup has no effect without store: nats://HOST:PORT")
		}
		return
	}
	if k.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			d.Fail(d.At("cluster"), "cluster.node", "cluster.node: this machine has no host name; name the node")
			return
		}
		k.Node, _, _ = strings.Cut(host, ".")
	}
	for _, of := range [][2]string{{"cluster.name", k.Name}, {"cluster.node", k.Node}} {
		key, name := of[0], of[1]
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r > '~' || !isWord(byte(r)) && r != '-' && (r != '.' || key == "cluster.name")
		}) {
			d.Fail(d.At(key), key, "%s must have letters, digits, - and _, not %q", key, strict.Clip(name))
		}
	}
	checkClusterKeys(d, k)
	checkClusterAddresses(d, k)
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

func checkClusterKeys(d *strict.Decoder, k *Cluster) {
	if k.Key == "" {
		if !d.Bad("cluster.key") { // a variable without a value has been reported
			d.Fail(cmp.Or(d.At("cluster.key"), d.At("store")), "cluster.key", "store is shared and cluster.key is missing: all nodes need one secret; make it with: openssl rand -base64 32, and write cluster: {key: \"${secret:CLUSTER_KEY}\"}")
		}
		return
	}
	for i, text := range append([]Secret{k.Key}, k.OldKeys...) {
		key := "cluster.key"
		if i > 0 {
			key = fmt.Sprintf("cluster.old_keys[%d]", i-1)
		}
		if _, err := link.Parse(text.Reveal()); err != nil {
			d.Fail(cmp.Or(d.At(key), d.At("cluster.old_keys")), key, "%s: %v", key, err)
		}
	}
}

func checkClusterAddresses(d *strict.Decoder, k *Cluster) {
	host, port, err := net.SplitHostPort(k.Listen)
	if err != nil || !isPort(port, 0) {
		d.Fail(d.At("cluster.listen"), "cluster.listen", "cluster.listen must be an address and a port such as 0.0.0.0:8090, not %q", strict.Clip(k.Listen))
		return
	}
	if k.Advertise == "" {
		if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
			host = k.Node
		}
		k.Advertise = net.JoinHostPort(host, port)
	} else if host, port, err := net.SplitHostPort(k.Advertise); err != nil || host == "" || !isPort(port, 0) {
		d.Fail(d.At("cluster.advertise"), "cluster.advertise", "cluster.advertise must be HOST:PORT, not %q", strict.Clip(k.Advertise))
	}
}

// checkNATS checks the servers of a NATS that runs elsewhere.
func checkNATS(d *decoder, s *Store) {
	const key = "store"
	at := d.At("store.at")
	for i, text := range strings.Split(s.At, ",") {
		text = strings.TrimSpace(text)
		if i > 0 && !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || strings.Contains(u.Hostname(), ":") && net.ParseIP(u.Hostname()) == nil || u.Port() != "" && !isPort(u.Port(), 1) || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			d.Fail(at, key, "store: server %d of the list is not nats://HOST:PORT or tls://HOST:PORT", i+1) // without the text, which may have a password
			return
		}
		s.urls = append(s.urls, u.String())
	}
	for _, file := range []*string{&s.Creds, &s.CA, &s.Cert, &s.Key} {
		if *file != "" {
			*file = d.absolute(*file)
		}
	}
	if (s.Cert == "") != (s.Key == "") {
		d.Fail(at, key, "store.cert and store.key belong together: the client's certificate and its private key")
	}
}
