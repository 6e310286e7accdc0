// Package textgrid lays a scenario's grid of initial states out for a terminal.
package textgrid

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"seadtrain/dialogue"
)

// Render makes one column per level of the last dimension and one row per combination of the others. cell gives a
// state's text by its index (Scenario.StateIndex).
func Render(s *dialogue.Scenario, cell func(state int) string) string {
	last := s.Dimensions[len(s.Dimensions)-1]
	rowDims := s.Dimensions[:len(s.Dimensions)-1]
	header := make([]string, 0, len(s.Dimensions)+last.Levels)
	for _, d := range rowDims {
		header = append(header, d.Name)
	}
	for level := range last.Levels {
		header = append(header, fmt.Sprintf("%s %d", last.Name, level))
	}
	rows := [][]string{header}
	for first := 0; first < s.States(); first += last.Levels {
		var row []string
		for _, level := range s.StateAt(first)[:len(rowDims)] {
			row = append(row, fmt.Sprint(level))
		}
		for level := range last.Levels {
			row = append(row, cell(first+level))
		}
		rows = append(rows, row)
	}
	return Columns(rows, 0)
}

// Columns aligns rows of cells, two spaces apart: the first columns to the left, the others to the right.
func Columns(rows [][]string, left int) string {
	var width []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, text := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			if i < left {
				b.WriteString(text + pad)
			} else {
				b.WriteString(pad + text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
