package result

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// maxHeadings bounds the headings that are looked at in one document.
const maxHeadings = 10_000

// heading is a heading of a Markdown document.
type heading struct {
	level int // 1 to 6
	title string
	line  int // at which it stands
}

// headingsOf returns the headings of Markdown with their lines: those that start with # and those
// that are underlined. Blocks of code have none. It returns nil for a text without any.
func headingsOf(content string) (found []heading) {
	fence := "" // of the block of code around
	paragraph := ""
	for n := 0; len(content) > 0 && len(found) < maxHeadings; n++ {
		var line string
		line, content, _ = strings.Cut(content, "\n")
		line = strings.TrimRight(line, " \t\r")
		trimmed := strings.TrimLeft(line, " ")
		if len(line)-len(trimmed) > 3 {
			paragraph = ""
			continue
		}
		if mark := fenceOf(trimmed); mark != "" && (fence == "" || strings.HasPrefix(mark, fence) && strings.Trim(trimmed, fence[:1]) == "") {
			if fence == "" {
				fence = mark
			} else {
				fence = ""
			}
			paragraph = ""
			continue
		}
		if fence != "" {
			continue
		}
		before := paragraph
		paragraph = trimmed
		if level, title := hashHeading(trimmed); level > 0 {
			found = append(found, heading{level, title, n})
			paragraph = ""
			continue
		}
		if level := underline(trimmed); level > 0 && before != "" {
			found = append(found, heading{level, before, n - 1})
			paragraph = ""
		}
	}
	return found
}

// fenceOf returns the marks that start or end a block of code, "" for other lines.
func fenceOf(line string) string {
	for _, mark := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, mark)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// hashHeading returns the level of a heading that starts with #, 0 for other lines.
func hashHeading(line string) (level int, title string) {
	rest := strings.TrimLeft(line, "#")
	level = len(line) - len(rest)
	if level == 0 || level > 6 || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
		return 0, ""
	}
	title = strings.TrimSpace(rest)
	if bare := strings.TrimRight(title, "#"); bare == "" || bare[len(bare)-1] == ' ' {
		title = strings.TrimSpace(bare)
	}
	return level, title
}

// underline returns the level of the heading that a line underlines, 0 for other lines.
func underline(line string) int {
	switch {
	case len(line) < 3:
		return 0
	case strings.Trim(line, "=") == "":
		return 1
	case strings.Trim(line, "-") == "":
		return 2
	}
	return 0
}

// sectionEnd returns the line at which the section of heading i ends: the line of the next heading
// of its level or above.
func sectionEnd(all []heading, i, lines int) int {
	for _, h := range all[i+1:] {
		if h.level <= all[i].level {
			return h.line
		}
	}
	return lines
}

// markdown returns the headings of the artifact and how many lines it has.
func (v *viewing) markdown(kind string) (all []heading, lines int, err error) {
	content := v.lineText()
	all = headingsOf(content)
	longest := 0
	for _, h := range all {
		longest = max(longest, len(h.title))
	}
	if !v.scratch.need(2 * longest) { // a title in lower case
		return nil, 0, v.meter.Err()
	}
	if len(all) == 0 {
		return nil, 0, viewFailed("type %q needs Markdown and %s has no headings; use lines, tail or search", kind, v.artifact.Handle)
	}
	return all, countLines(content), nil
}

// headings lists the headings with their numbers and the lines of their sections.
func (v *viewing) headings() (View, error) {
	level, err := v.integer("level", 6)
	if err != nil {
		return View{}, err
	}
	all, lines, err := v.markdown("headings")
	if err != nil {
		return View{}, err
	}
	w := lineWriter{room: v.max - noticeChars}
	var list strings.Builder
	fitting := 0
	for i, h := range all {
		if h.level > level {
			continue
		}
		fitting++
		fmt.Fprintf(&list, "%d: %s %s (lines %d to %d)\n", i, strings.Repeat("#", h.level), text.Line(h.title, 120), h.line, sectionEnd(all, i, lines))
	}
	w.write(list.String(), 0, fitting)
	notice := text.Plural(fitting, "heading") + ` in ` + text.Plural(lines, "line") + `; {"type":"section","heading":0} shows one by its number or title`
	if w.shown < fitting {
		notice = fmt.Sprintf("the first %d of %s; a lower level shows fewer", w.shown, notice)
	}
	return v.finish(w.out.String(), notice, nil), nil
}

// section shows what stands under a heading, with the headings below it.
func (v *viewing) section() (View, error) {
	numbers, err := v.flag("numbers")
	if err != nil {
		return View{}, err
	}
	raw := v.params["heading"]
	if raw == nil || string(raw) == "null" {
		return View{}, viewFailed(`heading is missing: section needs the title of a heading or its number in the selector "headings"`)
	}
	all, lines, err := v.markdown("section")
	if err != nil {
		return View{}, err
	}
	i := -1
	if n, ok := rawjson.Int(raw); ok {
		if i = n; n < 0 || n >= len(all) {
			return View{}, viewFailed("heading %d is not there: the headings are 0 to %d", n, len(all)-1)
		}
	} else if title, err := rawjson.String(raw); err != nil {
		return View{}, viewFailed("heading must be a title or a number, not %s", text.Value(raw))
	} else if i, err = findHeading(all, title); err != nil {
		return View{}, err
	}
	return v.lineRange("lines", span{start: all[i].line, end: sectionEnd(all, i, lines)}, numbers)
}

// findHeading returns the heading of a title: in the same words, or the only one that has them in it.
func findHeading(all []heading, title string) (int, error) {
	want := strings.ToLower(strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(title), "#")))
	var same, within []int
	for i, h := range all {
		switch have := strings.ToLower(h.title); {
		case have == want:
			same = append(same, i)
		case want != "" && strings.Contains(have, want):
			within = append(within, i)
		}
	}
	found := same
	if len(found) == 0 {
		found = within
	}
	if len(found) == 1 {
		return found[0], nil
	}
	problem, close := "is not there; headings are ", found
	if len(found) > 1 {
		problem = "fits several, name one by its number: "
	} else {
		for i := range all[:min(len(all), 8)] {
			close = append(close, i)
		}
	}
	var names []string
	for _, i := range close[:min(len(close), 8)] {
		names = append(names, strconv.Itoa(i)+" "+text.Line(all[i].title, 40))
	}
	return 0, viewFailed("heading %s %s%s", string(rawjson.Quote(text.Fit(title, 60))), problem, strings.Join(names, ", "))
}
