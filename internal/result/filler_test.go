package result

import (
	"fmt"
	"strings"
	"testing"
)

func TestFirstLinesOfMarkdown(t *testing.T) {
	const head = "# Weir\n\n[![CI](https://ci/badge.svg)](https://ci)\n<p align=\"center\">\n</p>\n\n- [Use](#use)\n- [Build](#build)\n\n---\nA gateway between agents and servers.\n\n## Use\n\nStart it.\n## Build\nRun make.\n"
	d := &doc{clean: func(s string) string { return s }}
	shown, next := d.firstLines(head, true)
	if got := strings.Join(shown, "|"); got != "10:A gateway between agents and servers.|14:Start it.|16:Run make." || next != 17 {
		t.Errorf("%s, then %d", got, next)
	}
	shown, next = d.firstLines(head, false)
	if len(shown) != headLines || shown[0] != "0:# Weir" || next != headLines {
		t.Errorf("a text that is no Markdown: %q, then %d", shown, next)
	}
	if shown, next = d.firstLines("# A\n\n# B\n# C\n", true); fmt.Sprint(shown) != "[0:# A 1: 2:# B 3:# C 4:]" || next != 5 {
		t.Errorf("headings alone: %q, then %d", shown, next)
	}
	for line, want := range map[string]bool{
		"": true, "***": true, "# A": true, "#tag": false, "<img src=\"a\">": true, "<a> b": false, "![a](b)": true, "1. [A](#a)": true, "- [A](https://a)": false, "[A](#a) is": false, "text": false,
	} {
		if got := isFiller(line); got != want {
			t.Errorf("isFiller(%q) = %t", line, got)
		}
	}
}
