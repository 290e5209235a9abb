package rawjson

import (
	"math"
	"testing"
)

func TestInt(t *testing.T) {
	for raw, want := range map[string]int{
		"0": 0, "2": 2, "-7": -7, "2.0": 2, "2e0": 2, "1.5e1": 15, "-0.0": 0, "20e-1": 2,
		"9007199254740992": 1 << 53, "9223372036854775807": math.MaxInt64,
	} {
		if n, ok := Int([]byte(raw)); !ok || n != want {
			t.Errorf("Int(%s) = %d, %t", raw, n, ok)
		}
	}
	for _, raw := range []string{
		"", "2.5", `"2"`, "null", "true", "[]", "{}", "1e30", "-1e400", "9223372036854775808", "18014398509481984.0", "NaN", "Infinity", "2x", "0x1p4", "0x1_0p4",
	} {
		if n, ok := Int([]byte(raw)); ok {
			t.Errorf("Int(%s) = %d", raw, n)
		}
	}
}
