package config

import (
	"strings"
	"testing"
)

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

// TestStorePassword: the password of a store comes from the environment, and is hidden.
func TestStorePassword(t *testing.T) {
	env := func(name string) (string, bool) { return map[string]string{"PW": "zz1"}[name], name == "PW" }
	const key = "\ncluster: {key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=, node: a}"
	for _, text := range []string{"store: 'nats://weir:${PW}@h:4222'" + key, "store: {at: 'nats://weir:${PW}@h:4222'}" + key} {
		c, _, err := Parse("weir.yaml", []byte(text), Options{LookupEnv: env})
		if err != nil || len(c.Store.URLs()) != 1 || c.Store.URLs()[0] != "nats://weir:zz1@h:4222" {
			t.Fatalf("%s: %v", text, err)
		}
		for _, one := range c.Settings() {
			if one.Key == "store.at" && one.Value != any("nats://weir:***@h:4222") {
				t.Errorf("%v is shown", one.Value)
			}
		}
	}
	if _, _, err := Parse("weir.yaml", []byte("store: 'nats://weir:${GONE}@h'"+key), Options{LookupEnv: env}); err == nil || !strings.Contains(err.Error(), "GONE") {
		t.Errorf("a password that is not set: %v", err)
	}
}
