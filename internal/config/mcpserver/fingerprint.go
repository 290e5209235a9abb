package mcpserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"
	"slices"
	"strings"
)

// Fingerprint returns a text that differs if the server is configured in another way. It reveals
// nothing of the configuration without the key.
func (s *Server) Fingerprint(key []byte) string {
	h := hmac.New(sha256.New, key)
	digest(h, reflect.ValueOf(*s))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// digest hashes a value as strict.Equal compares it.
func digest(h hash.Hash, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !(v.Field(i).Kind() == reflect.Slice && v.Field(i).Len() == 0) && !v.Field(i).IsZero() {
				fmt.Fprintf(h, "%q:", f.Name)
				digest(h, v.Field(i))
			}
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			digest(h, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			digest(h, v.Index(i))
			_, _ = h.Write([]byte{','})
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			fmt.Fprintf(h, "%q=", k.String())
			digest(h, v.MapIndex(k))
		}
	case reflect.String:
		fmt.Fprintf(h, "%q", v.String())
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		fmt.Fprintf(h, "%v", v)
	}
	_, _ = h.Write([]byte{';'})
}
