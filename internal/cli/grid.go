package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A cell is a piece of text in a style.
type cell struct{ style, text string }

// A column is a column of a table on a screen, with its treatment if the table is too wide.
type column struct {
	name string
	fit  fit
}

// A fit is the treatment of a column in a table that is too wide. A pipe gets every column whole.
type fit int

const (
	whole   fit = iota // never cut: numbers and states
	between            // its texts are cut in the middle: names, because similar ones differ at their ends
	ending             // its texts are cut at their ends: descriptions
	wrapped            // the last column, whose texts continue on further lines: reasons
	spare              // left out, if cutting the others is not enough; else whole
)

// Measures of tables, in characters.
const (
	minColumn  = 8  // of a column that is cut
	minWrapped = 24 // of a wrapped column
	columnGap  = 2
	noteIndent = 2
)

// printTable prints rows in columns. On a screen it makes them fit and prints the header in bold;
// elsewhere it cuts and colours nothing.
func printTable(t terminal, columns []column, rows [][]cell) error {
	return printNotedTable(t, columns, rows, nil)
}

// printNotedTable prints a table as printTable does, with a note below some rows. Notes are
// wrapped, never cut. Pipes get no notes. notes may be nil.
func printNotedTable(t terminal, columns []column, rows [][]cell, notes []string) error {
	widths := make([]int, len(columns))
	head := make([]cell, len(columns))
	for i, c := range columns {
		head[i] = cell{bold, c.name}
		widths[i] = utf8.RuneCountInString(c.name)
	}
	for _, row := range rows {
		for i, c := range row {
			row[i].text = oneLine(t.legible(c.text))
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	if t.screen() {
		fitColumns(columns, widths, t.width)
	}
	if err := printRow(t, columns, widths, head); err != nil {
		return err
	}
	for i, row := range rows {
		if err := printRow(t, columns, widths, row); err != nil {
			return err
		}
		if notes == nil || notes[i] == "" || !t.screen() {
			continue
		}
		for _, text := range wrap(t.clean(notes[i]), t.width-noteIndent) {
			if _, err := fmt.Fprintf(t, "%*s%s\n", noteIndent, "", t.paint(red, text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fitColumns reduces widths so that a table fits into width, if the columns allow that. A column of
// width 0 is left out.
func fitColumns(columns []column, widths []int, width int) {
	least := func(i int) int {
		switch columns[i].fit {
		case between, ending:
			return min(widths[i], max(minColumn, utf8.RuneCountInString(columns[i].name)))
		case wrapped:
			return min(widths[i], minWrapped)
		}
		return widths[i]
	}
	total := func(of func(int) int) (sum int) {
		for i := range widths {
			if widths[i] > 0 {
				sum += of(i) + columnGap
			}
		}
		return sum - columnGap
	}
	for i := len(columns) - 1; i >= 0 && total(least) > width; i-- {
		if columns[i].fit == spare {
			widths[i] = 0
		}
	}
	// Descriptions and reasons give way first, because they read well at any width. Then the widest
	// name does.
	for _, kind := range []fit{wrapped, ending, between} {
		for excess := total(func(i int) int { return widths[i] }) - width; excess > 0; excess-- {
			widest := -1
			for i := range columns {
				if columns[i].fit == kind && widths[i] > least(i) && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
}

// printRow prints a row, on several lines if its last column is wrapped.
func printRow(t terminal, columns []column, widths []int, row []cell) error {
	var b strings.Builder
	pad, used := 0, 0
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		b.WriteString(strings.Repeat(" ", pad))
		used += pad
		lines := []string{c.text}
		if utf8.RuneCountInString(c.text) > widths[i] {
			switch columns[i].fit {
			case between:
				lines[0] = middle(c.text, widths[i])
			case ending:
				lines[0] = cut(c.text, widths[i])
			case wrapped:
				lines = wrap(c.text, widths[i])
			}
		}
		for n, line := range lines {
			if n > 0 {
				b.WriteString("\n" + strings.Repeat(" ", used))
			}
			b.WriteString(t.paint(c.style, line))
		}
		used += utf8.RuneCountInString(lines[0])
		pad = widths[i] - utf8.RuneCountInString(lines[0]) + columnGap
	}
	_, err := fmt.Fprintln(t, strings.TrimRight(b.String(), " "))
	return err
}
