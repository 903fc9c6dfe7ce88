package screen

import (
	"math"
	"strings"
)

// Bar is a share from 0 to 1 in so many cells; more than 1 fills it.
func (s Style) Bar(share float64, cells int) string {
	if cells <= 0 {
		return ""
	}
	if math.IsNaN(share) || share < 0 {
		share = 0
	}
	share = min(share, 1)
	if !s.Unicode {
		full := int(math.Round(share * float64(cells)))
		return strings.Repeat("#", full) + strings.Repeat(".", cells-full)
	}
	eighths := int(math.Round(share * float64(cells) * 8))
	if eighths == 0 && share > 0 {
		eighths = 1
	}
	full, part := eighths/8, eighths%8
	bar := strings.Repeat("█", full)
	if part > 0 {
		bar += string([]rune(" ▏▎▍▌▋▊▉")[part])
		full++
	}
	return s.Accent(bar) + s.Faint(strings.Repeat("·", cells-full))
}

// Spark is a line of the last values, the newest at the right, as high as their share of top. NaN is a gap.
func (s Style) Spark(values []float64, top float64, cells int) string {
	steps := []rune("_.:-=+*#")
	if s.Unicode {
		steps = []rune("▁▂▃▄▅▆▇█")
	}
	line := make([]rune, 0, cells)
	for range cells - len(values) {
		line = append(line, ' ')
	}
	for _, v := range values[max(0, len(values)-cells):] {
		switch {
		case math.IsNaN(v):
			line = append(line, ' ')
		case top <= 0 || v <= 0:
			line = append(line, steps[0])
		default:
			step := int(math.Ceil(v / top * float64(len(steps)-1)))
			line = append(line, steps[min(step, len(steps)-1)])
		}
	}
	return s.Accent(string(line))
}
