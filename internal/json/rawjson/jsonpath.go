package rawjson

import "strings"

// PathStep returns the segment of a JSONPath that selects the member key: ".name", or "['a name']".
func PathStep(key string) string {
	plain := key != ""
	for i, r := range key {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			plain = false
			break
		}
	}
	if plain {
		return "." + key
	}
	r := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	return "['" + r.Replace(key) + "']"
}
