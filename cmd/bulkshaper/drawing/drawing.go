// Package drawing is a small picture of rectangles, lines and words that can be written as SVG and as PNG, both from the same
// shapes. It has what a chart needs and no more, and imports nothing of ours.
package drawing

import "image/color"

// Drawing is a picture. Coordinates are pixels from the upper left corner.
type Drawing struct {
	width, height float64
	shapes        []shape
}

// New makes an empty picture on white ground.
func New(width, height float64) *Drawing { return &Drawing{width: width, height: height} }

// Point is a place.
type Point struct{ X, Y float64 }

// Stroke is how a line is drawn.
type Stroke struct {
	Color color.NRGBA
	Width float64
	// Dash is the length of dashes and of the gaps between them, 0 for a line without gaps.
	Dash float64
}

// Anchor is which end of a text is at its place.
type Anchor string

// The anchors, as SVG has them.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Font is how words are written.
type Font struct {
	Size   float64 // pixels
	Bold   bool
	Color  color.NRGBA
	Anchor Anchor
}

// RGB is a colour from its hexadecimal number, with an opacity from 0 to 1.
func RGB(hex uint32, opacity float64) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: uint8(opacity*255 + 0.5)}
}

type shape any

type rect struct {
	x, y, w, h float64
	fill       color.NRGBA
}

type polyline struct {
	points []Point
	stroke Stroke
}

type text struct {
	at   Point
	font Font
	text string
}

// Rect fills a rectangle.
func (d *Drawing) Rect(x, y, w, h float64, fill color.NRGBA) {
	d.shapes = append(d.shapes, rect{x, y, w, h, fill})
}

// Line joins points.
func (d *Drawing) Line(stroke Stroke, points ...Point) {
	if len(points) > 1 {
		d.shapes = append(d.shapes, polyline{points, stroke})
	}
}

// Text writes words; at is on their base line.
func (d *Drawing) Text(at Point, font Font, words string) {
	if words != "" {
		d.shapes = append(d.shapes, text{at, font, words})
	}
}
