package config

import "testing"

// TestStoreDir: the folder of a store is relative to the configuration's folder.
func TestStoreDir(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "", "store: memory": "", "store: file:state": "/etc/weir/state", "store: file:/var/lib/weir": "/var/lib/weir",
		"store: {at: 'file:../x', max_bytes: 16MB}": "/etc/x", "store: {}": "",
	} {
		c, _, err := Parse("weir.yaml", []byte(text), Options{Dir: "/etc/weir"})
		if err != nil || c.Store.Dir() != want {
			t.Errorf("%s: %q, %v, want %q", text, c.Store.Dir(), err, want)
		}
	}
}
