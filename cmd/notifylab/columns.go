package main

import (
	"strings"
	"unicode/utf8"
)

// pageWidth is what text that is to be read is at most wide.
const pageWidth = 120

// layOut puts rows in columns, with gap between, and returns the lines of each row. What
// would be wider than width is wrapped between words, the widest columns first; a word is
// never cut. Width 0 is no limit.
func layOut(rows [][]string, gap string, width int) [][]string {
	var widths, least []int
	for _, cells := range rows {
		for i, c := range cells {
			if i == len(widths) {
				widths, least = append(widths, 0), append(least, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
			for word := range strings.SplitSeq(c, " ") {
				least[i] = max(least[i], utf8.RuneCountInString(word))
			}
		}
	}
	if width > 0 {
		narrow(widths, least, width-len(gap)*max(len(widths)-1, 0))
	}
	var all [][]string
	for _, cells := range rows {
		all = append(all, layOutRow(cells, widths, gap))
	}
	return all
}

// narrow takes from the widest columns until they have room together, or none can be
// narrower.
func narrow(widths, least []int, room int) {
	for total := sum(widths); total > room; total-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func sum(all []int) (n int) {
	for _, i := range all {
		n += i
	}
	return n
}

// layOutRow returns the lines of a row, the last cell's padding included.
func layOutRow(cells []string, widths []int, gap string) []string {
	wrapped := make([][]string, len(cells))
	height := 1
	for i, c := range cells {
		wrapped[i] = wrap(c, widths[i])
		height = max(height, len(wrapped[i]))
	}
	var lines []string
	for n := range height {
		parts := make([]string, len(cells))
		for i := range cells {
			if n < len(wrapped[i]) {
				parts[i] = wrapped[i][n]
			}
			parts[i] = pad(parts[i], widths[i])
		}
		lines = append(lines, strings.Join(parts, gap))
	}
	return lines
}

// wrap breaks a text between words into lines of at most a width. Only a word can be
// longer.
func wrap(s string, width int) []string {
	if utf8.RuneCountInString(s) <= width {
		return []string{s}
	}
	var lines []string
	for word := range strings.SplitSeq(s, " ") {
		if last := len(lines) - 1; last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
