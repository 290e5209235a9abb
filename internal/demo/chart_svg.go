package demo

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Measures of the picture, in pixels.
const (
	chartWidth  = 760
	chartTop    = 56 // above the first bar
	barStep     = 30 // from one bar to the next
	barHeight   = 20
	labelWidth  = 220 // left of the bars
	valueWidth  = 80  // right of the longest
	labelLength = 28  // characters
)

// svg draws the chart. Bars start at zero; negative ones go to the left of it.
func (c *barChart) svg() []byte {
	low, high := 0.0, 0.0
	for _, b := range c.Bars {
		low, high = math.Min(low, b.Value), math.Max(high, b.Value)
	}
	if high == low {
		high = 1
	}
	// Halves first: the span of two large numbers is not a number.
	scale := float64(chartWidth-labelWidth-valueWidth) / 2 / (high/2 - low/2)
	x := func(v float64) float64 { return labelWidth + (v-low)*scale }
	height := chartTop + barStep*len(c.Bars) + 24
	var s bytes.Buffer
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`, chartWidth, height, chartWidth, height)
	fmt.Fprintf(&s, `<title>%s</title><rect width="100%%" height="100%%" fill="#ffffff"/>`, escape(c.Title))
	fmt.Fprintf(&s, `<text x="16" y="30" font-size="17" font-weight="bold" fill="#1f2933">%s</text>`, escape(c.Title))
	for i, b := range c.Bars {
		top := chartTop + barStep*i
		from, to := x(math.Min(b.Value, 0)), x(math.Max(b.Value, 0))
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end" fill="#1f2933">%s</text>`, labelWidth-10, top+15, escape(shorten(b.Label)))
		fmt.Fprintf(&s, `<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="#2a78b8"/>`, from, top, math.Max(to-from, 1), barHeight)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" fill="#52606d">%s</text>`, to+6, top+15, number(b.Value))
	}
	fmt.Fprintf(&s, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#9aa5b1"/>`, x(0), chartTop-8, x(0), height-20)
	s.WriteString(`</svg>`)
	return s.Bytes()
}

// escape makes a label safe inside of XML, whatever it holds. Characters that XML does not allow, even
// escaped, become U+FFFD.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, text))
}

func shorten(label string) string {
	if utf8.RuneCountInString(label) <= labelLength {
		return label
	}
	return string([]rune(label)[:labelLength-1]) + "…"
}

func number(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'g', 8, 64) }
