package main

import "testing"

// Pages of the program file are not private memory, also while no other process has them mapped.
func TestParseMemory(t *testing.T) {
	const alone = "00400000-7ffcd09de000 ---p 00000000 00:00 0                              [rollup]\n" +
		"Rss:               58072 kB\nPss:               58064 kB\nShared_Clean:          8 kB\nShared_Dirty:          0 kB\n" +
		"Private_Clean:      2436 kB\nPrivate_Dirty:     55628 kB\nAnonymous:         25628 kB\nPrivate_Hugetlb:       0 kB\n"
	if got, err := parseMemory(alone); err != nil || got != (memory{rss: 58072, private: 25628}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "Rss: 1 kB\n", "Rss: 1 kB\nAnonymous: x kB\n"} {
		if got, err := parseMemory(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
