package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// The chart's measures, in pixels.
const (
	chartWidth  = 860
	labelWidth  = 230
	numberWidth = 190
	rowHeight   = 44
	barHeight   = 14
	headHeight  = 62
	footHeight  = 14
)

// The colours are read on white and on black alike; a picture cannot know which
// of them a page has.
const (
	inkColour   = "#7d8590"
	lostColour  = "#e5534b"
	staleColour = "#d4a72c"
	safeColour  = "#2da44e"
)

// chart is the rows as SVG: two bars each, what was lost above what was taken
// too late.
func chart(rows []row) string {
	most := 1
	for _, r := range rows {
		most = max(most, r.Lost, r.Stale)
	}
	height := headHeight + rowHeight*len(rows) + footHeight
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="14">`+"\n",
		chartWidth, height)
	_, _ = fmt.Fprintf(&b, "<title>%s</title>\n", escape(summary(rows)))
	text(&b, 0, 18, inkColour, `font-size="16" font-weight="600"`, "Under each lock, its holders were paused: what went wrong")
	legend(&b)
	for i, r := range rows {
		bars(&b, headHeight+i*rowHeight, r, most)
	}
	_, _ = b.WriteString("</svg>\n")
	return b.String()
}

func legend(b *strings.Builder) {
	rect(b, labelWidth, 32, 12, 12, lostColour)
	text(b, labelWidth+18, 43, inkColour, "", "lost updates")
	rect(b, labelWidth+120, 32, 12, 12, staleColour)
	text(b, labelWidth+138, 43, inkColour, "", "stale writes accepted")
}

// bars draws one row whose upper edge is at y.
func bars(b *strings.Builder, y int, r row, most int) {
	colour, weight := inkColour, ""
	if !r.harm() {
		colour, weight = safeColour, `font-weight="600"`
	}
	text(b, labelWidth-12, y+19, colour, `text-anchor="end" `+weight, r.Lock)
	if !r.harm() {
		text(b, labelWidth, y+19, safeColour, weight, fmt.Sprintf("0 lost, 0 stale, %d refused", r.Refused))
		return
	}
	for i, bar := range []struct {
		n            int
		colour, what string
	}{{r.Lost, lostColour, "lost"}, {r.Stale, staleColour, "stale"}} {
		width := bar.n * (chartWidth - labelWidth - numberWidth) / most
		top := y + i*(barHeight+2)
		rect(b, labelWidth, top, max(width, 2), barHeight, bar.colour)
		text(b, labelWidth+max(width, 2)+6, top+barHeight-2, inkColour, `font-size="13"`, fmt.Sprintf("%d %s", bar.n, bar.what))
	}
}

func rect(b *strings.Builder, x, y, width, height int, colour string) {
	_, _ = fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="2" fill="%s"/>`+"\n", x, y, width, height, colour)
}

func text(b *strings.Builder, x, y int, colour, more, s string) {
	_, _ = fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s" %s>%s</text>`+"\n", x, y, colour, more, escape(s))
}

// summary is the chart for those who do not see it.
func summary(rows []row) string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = fmt.Sprintf("%s: %d lost updates, %d stale writes accepted", r.Lock, r.Lost, r.Stale)
	}
	return strings.Join(list, "; ")
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	return b.String()
}
