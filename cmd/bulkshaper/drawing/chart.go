package drawing

import (
	"fmt"
	"math"
)

// Colours that also those tell apart who do not see them all (Okabe and Ito's set), and those of what is not a series.
const (
	Blue   = 0x0072b2
	Orange = 0xe69f00
	Green  = 0x009e73
	Red    = 0xd55e00
	Purple = 0xb0508f
	Ink    = 0x222222
	Grey   = 0x777777
)

// opacity lets a line be seen below another.
const opacity = 0.95

// Chart lays panels above each other, with time from left to right.
type Chart struct {
	*Drawing
	// Left and Right are where time begins and where it is at End, in seconds.
	Left, Right, End float64

	top, height float64 // of the panel
	scale       Scale
}

// Scale gives the height of a value in its panel, from 0 to 1.
type Scale func(v float64) float64

// Linear is a scale of equal steps.
func Linear(from, to float64) Scale {
	return func(v float64) float64 { return clip((v - from) / (to - from)) }
}

// Log is a scale of equal factors.
func Log(from, to float64) Scale {
	return func(v float64) float64 { return clip(math.Log(max(v, from)/from) / math.Log(to/from)) }
}

func clip(v float64) float64 { return max(0, min(1, v)) }

// Tick is a value with its name at the left of the panel, and a note on its line.
type Tick struct {
	Value      float64
	Name, Note string
}

// Series is a line over time.
type Series struct {
	Name   string
	Color  uint32
	Points []Point // seconds and value
}

// X is where a time is.
func (c *Chart) X(seconds float64) float64 { return c.Left + (c.Right-c.Left)*seconds/c.End }

func (c *Chart) y(v float64) float64 { return c.top + c.height*(1-c.scale(v)) }

// Panel begins one: what follows is drawn into it.
func (c *Chart) Panel(title string, top, height float64, s Scale, ticks []Tick) {
	c.top, c.height, c.scale = top, height, s
	c.Text(Point{c.Left, top - 9}, Font{Size: 13, Bold: true, Color: RGB(Ink, 1), Anchor: Start}, title)
	small := Font{Size: 11, Color: RGB(Grey, 1), Anchor: End}
	for _, t := range ticks {
		y := c.y(t.Value)
		c.Line(Stroke{Color: RGB(0x999999, 0.45), Width: 1}, Point{c.Left, y}, Point{c.Right, y})
		small.Anchor = End
		c.Text(Point{c.Left - 6, y + 4}, small, t.Name)
		small.Anchor = Start
		c.Text(Point{c.Left + 4, y + 13}, small, t.Note)
	}
}

// Lines draws series, the last one on top, and names them right of the panel's title, the last one first.
func (c *Chart) Lines(series ...Series) {
	x := c.Right
	for _, s := range series {
		var points []Point
		for _, p := range s.Points {
			if p.X <= c.End {
				points = append(points, Point{c.X(p.X), c.y(p.Y)})
			}
		}
		c.Line(Stroke{Color: RGB(s.Color, opacity), Width: 2}, points...)
		const letter, sample = 6.5, 44 // pixels: about a letter, and the piece of line before the name
		x -= letter*float64(len(s.Name)) + sample
		c.Line(Stroke{Color: RGB(s.Color, opacity), Width: 3}, Point{x + 8, c.top - 13}, Point{x + 30, c.top - 13})
		c.Text(Point{x + 36, c.top - 9}, Font{Size: 12, Color: RGB(Ink, 1), Anchor: Start}, s.Name)
	}
}

// Mark draws a dashed line at a value, from one time to another.
func (c *Chart) Mark(from, to, v float64) {
	c.Line(Stroke{Color: RGB(Ink, 0.8), Width: 1.2, Dash: 5}, Point{c.X(from), c.y(v)}, Point{c.X(to), c.y(v)})
}

// Seconds writes the time below all panels.
func (c *Chart) Seconds(y float64) {
	for v := 0.0; v <= c.End; v += 10 {
		name := fmt.Sprintf("%.0f", v)
		if v == 0 {
			name = "0 s"
		}
		c.Text(Point{c.X(v), y + 16}, Font{Size: 11, Color: RGB(Grey, 1), Anchor: Middle}, name)
	}
}
