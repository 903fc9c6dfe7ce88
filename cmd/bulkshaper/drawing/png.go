package drawing

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// PNG draws the picture, scale pixels for each of its own.
func (d *Drawing) PNG(scale float64) ([]byte, error) {
	p, err := newPainter(d.width, d.height, scale)
	if err != nil {
		return nil, fmt.Errorf("draw picture: %w", err)
	}
	for _, s := range d.shapes {
		switch s := s.(type) {
		case rect:
			p.polygon(s.fill, Point{s.x, s.y}, Point{s.x + s.w, s.y}, Point{s.x + s.w, s.y + s.h}, Point{s.x, s.y + s.h})
		case polyline:
			p.stroke(s)
		case text:
			if err := p.text(s); err != nil {
				return nil, fmt.Errorf("draw picture: %w", err)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, p.image); err != nil {
		return nil, fmt.Errorf("draw picture: %w", err)
	}
	return b.Bytes(), nil
}

type painter struct {
	image         *image.RGBA
	scale         float64
	regular, bold *opentype.Font
	faces         map[Font]font.Face
}

func newPainter(width, height, scale float64) (*painter, error) {
	regular, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	bold, err := opentype.Parse(gobold.TTF)
	if err != nil {
		return nil, err
	}
	p := &painter{scale: scale, regular: regular, bold: bold, faces: map[Font]font.Face{}}
	p.image = image.NewRGBA(image.Rect(0, 0, int(math.Ceil(width*scale)), int(math.Ceil(height*scale))))
	draw.Draw(p.image, p.image.Bounds(), image.White, image.Point{}, draw.Src)
	return p, nil
}

// path collects areas that are painted together, so that where they overlap they are not painted twice.
type path struct {
	*vector.Rasterizer
	scale float64
}

func (p *painter) path() path {
	return path{vector.NewRasterizer(p.image.Bounds().Dx(), p.image.Bounds().Dy()), p.scale}
}

func (p *painter) fill(a path, c color.NRGBA) {
	a.Draw(p.image, p.image.Bounds(), image.NewUniform(c), image.Point{})
}

// add adds a polygon. All go around the same way, or their overlap would be a hole.
func (a path) add(points ...Point) {
	area := 0.0
	for i, q := range points {
		next := points[(i+1)%len(points)]
		area += q.X*next.Y - next.X*q.Y
	}
	at := func(i int) (float32, float32) {
		if area < 0 {
			i = len(points) - 1 - i
		}
		return float32(points[i].X * a.scale), float32(points[i].Y * a.scale)
	}
	a.MoveTo(at(0))
	for i := 1; i < len(points); i++ {
		a.LineTo(at(i))
	}
	a.ClosePath()
}

func (p *painter) polygon(c color.NRGBA, points ...Point) {
	a := p.path()
	a.add(points...)
	p.fill(a, c)
}

// stroke paints each piece of a line as a rectangle with round ends.
func (p *painter) stroke(s polyline) {
	a := p.path()
	half := s.stroke.Width / 2
	for _, piece := range dashes(s.points, s.stroke.Dash) {
		for i := range piece {
			a.add(circle(piece[i], half)...)
			if i == 0 {
				continue
			}
			from, to := piece[i-1], piece[i]
			length := math.Hypot(to.X-from.X, to.Y-from.Y)
			if length == 0 {
				continue
			}
			dx, dy := (to.X-from.X)/length*half, (to.Y-from.Y)/length*half
			a.add(Point{from.X - dy, from.Y + dx}, Point{to.X - dy, to.Y + dx}, Point{to.X + dy, to.Y - dx}, Point{from.X + dy, from.Y - dx})
		}
	}
	p.fill(a, s.stroke.Color)
}

func circle(at Point, radius float64) []Point {
	const corners = 12
	points := make([]Point, corners)
	for i := range points {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		points[i] = Point{at.X + radius*cos, at.Y + radius*sin}
	}
	return points
}

// dashes cuts a line into dashes; without a dash it is one piece.
func dashes(points []Point, dash float64) [][]Point {
	if dash <= 0 {
		return [][]Point{points}
	}
	var pieces [][]Point
	piece, left, drawn := []Point{points[0]}, dash, true
	for i := 1; i < len(points); i++ {
		from, to := points[i-1], points[i]
		for {
			length := math.Hypot(to.X-from.X, to.Y-from.Y)
			if length <= left {
				left -= length
				piece = append(piece, to)
				break
			}
			cut := Point{from.X + (to.X-from.X)*left/length, from.Y + (to.Y-from.Y)*left/length}
			if drawn {
				pieces = append(pieces, append(piece, cut))
			}
			piece, from, left, drawn = []Point{cut}, cut, dash, !drawn
		}
	}
	if drawn && len(piece) > 1 {
		pieces = append(pieces, piece)
	}
	return pieces
}

func (p *painter) text(s text) error {
	key := Font{Size: s.font.Size, Bold: s.font.Bold}
	face, ok := p.faces[key]
	if !ok {
		parsed := p.regular
		if s.font.Bold {
			parsed = p.bold
		}
		var err error
		face, err = opentype.NewFace(parsed, &opentype.FaceOptions{Size: s.font.Size * p.scale, DPI: 72, Hinting: font.HintingNone})
		if err != nil {
			return err
		}
		p.faces[key] = face
	}
	drawer := font.Drawer{Dst: p.image, Src: image.NewUniform(s.font.Color), Face: face}
	x := s.at.X * p.scale
	width := float64(drawer.MeasureString(s.text)) / 64
	switch s.font.Anchor {
	case Middle:
		x -= width / 2
	case End:
		x -= width
	}
	drawer.Dot = fixed.Point26_6{X: fixed.Int26_6(x * 64), Y: fixed.Int26_6(s.at.Y * p.scale * 64)}
	drawer.DrawString(s.text)
	return nil
}
