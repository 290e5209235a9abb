package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// ofOneNode are the keys in which the nodes of a cluster may differ.
var ofOneNode = []string{"listen", "public_url", "tls", "log", "events", "audit", "store", "cluster"}

// CommonHash returns a hash of the settings in effect that all nodes of a cluster share: without secrets
// and without the settings of single nodes.
func CommonHash(c *Config) string {
	h := sha256.New()
	for _, s := range c.Settings() {
		if !isOfOneNode(s.Key) {
			fmt.Fprintf(h, "%s=%v\n", s.Key, s.Value)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func isOfOneNode(key string) bool {
	for _, own := range ofOneNode {
		if rest, ok := strings.CutPrefix(key, own); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}
