package drawing

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
)

func example() *Drawing {
	d := New(200, 100)
	d.Rect(10, 10, 50, 30, RGB(0x0072b2, 1))
	d.Rect(30, 20, 50, 30, RGB(0xd55e00, 0.5))
	d.Line(Stroke{Color: RGB(0x009e73, 1), Width: 4}, Point{10, 80}, Point{100, 80}, Point{100, 60})
	d.Line(Stroke{Color: RGB(0, 1), Width: 2, Dash: 10}, Point{120, 80}, Point{190, 80})
	d.Line(Stroke{Color: RGB(0, 1), Width: 2}, Point{1, 1}) // of one point there is nothing to draw
	d.Text(Point{190, 40}, Font{Size: 20, Bold: true, Color: RGB(0xd55e00, 1), Anchor: End}, "a < b & c")
	d.Text(Point{0, 0}, Font{Size: 20}, "")
	return d
}

func drawn(t *testing.T, d *Drawing, scale float64) image.Image {
	t.Helper()
	b, err := d.PNG(scale)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestPNG(t *testing.T) {
	for _, scale := range []float64{1, 2} {
		img := drawn(t, example(), scale)
		if got := img.Bounds().Size(); got != (image.Point{int(200 * scale), int(100 * scale)}) {
			t.Errorf("scale %v: %v", scale, got)
		}
		at := func(x, y float64) color.RGBA {
			return color.RGBAModel.Convert(img.At(int(x*scale), int(y*scale))).(color.RGBA)
		}
		for name, c := range map[string]struct {
			x, y float64
			want color.RGBA
		}{
			"ground":         {5, 5, color.RGBA{255, 255, 255, 255}},
			"rectangle":      {15, 15, color.RGBA{0, 0x72, 0xb2, 255}},
			"half on white":  {75, 45, color.RGBA{0xea, 0xae, 0x7f, 255}},
			"half on blue":   {45, 30, color.RGBA{0x6b, 0x68, 0x59, 255}},
			"line":           {50, 80, color.RGBA{0, 0x9e, 0x73, 255}},
			"corner":         {100, 80, color.RGBA{0, 0x9e, 0x73, 255}},
			"beside a line":  {50, 84, color.RGBA{255, 255, 255, 255}},
			"dash":           {125, 80, color.RGBA{0, 0, 0, 255}},
			"between dashes": {135, 80, color.RGBA{255, 255, 255, 255}},
		} {
			got := at(c.x, c.y)
			far := func(a, b uint8) bool { return math.Abs(float64(a)-float64(b)) > 3 }
			if far(got.R, c.want.R) || far(got.G, c.want.G) || far(got.B, c.want.B) {
				t.Errorf("scale %v, %s: %v, want %v", scale, name, got, c.want)
			}
		}
		// The text ends where it is anchored, and there is some.
		inked := func(from, to float64) (n int) {
			for x := from; x < to; x++ {
				for y := 22.0; y < 45; y++ {
					if c := at(x, y); int(c.R) > int(c.B)+40 {
						n++
					}
				}
			}
			return n
		}
		if inside, behind := inked(95, 190), inked(191, 199); inside < 100 || behind > 0 {
			t.Errorf("scale %v: %d pixels of the text before its end, %d behind it", scale, inside, behind)
		}
	}
}

func TestSVG(t *testing.T) {
	text := string(example().SVG())
	counts := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if start, ok := token.(xml.StartElement); ok {
			counts[start.Name.Local]++
		}
	}
	if counts["svg"] != 1 || counts["rect"] != 3 || counts["polyline"] != 2 || counts["text"] != 1 {
		t.Errorf("%v in\n%s", counts, text)
	}
	for _, want := range []string{`viewBox="0 0 200 100"`, `fill="#d55e00" fill-opacity="0.5"`, `points="10,80 100,80 100,60"`, `stroke-dasharray="10"`,
		`text-anchor="end"`, `a &lt; b &amp; c`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestDashes(t *testing.T) {
	// 10 drawn, 10 not, around a corner.
	got := dashes([]Point{{0, 0}, {15, 0}, {15, 15}}, 10)
	want := [][]Point{{{0, 0}, {10, 0}}, {{15, 5}, {15, 15}}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if len(got[i]) != 2 || got[i][0] != want[i][0] || got[i][1] != want[i][1] {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestScales(t *testing.T) {
	for _, c := range []struct {
		scale   Scale
		v, want float64
	}{
		{Linear(0, 200), 50, 0.25}, {Linear(0, 200), 300, 1}, {Linear(0, 200), -1, 0},
		{Log(0.01, 1), 0.1, 0.5}, {Log(0.01, 1), 0, 0}, {Log(0.01, 1), 2, 1},
	} {
		if got := c.scale(c.v); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v is at %v, want %v", c.v, got, c.want)
		}
	}
}

// TestChart: a value is drawn at its time and height, and one after the end is not drawn.
func TestChart(t *testing.T) {
	c := &Chart{Drawing: New(300, 200), Left: 100, Right: 200, End: 10}
	c.Panel("title", 50, 100, Linear(0, 1), []Tick{{0.5, "half", "a note"}})
	c.Lines(Series{"s", Red, []Point{{0, 0}, {5, 1}, {11, 1}}})
	c.Mark(0, 5, 0.25)
	c.Seconds(180)
	svg := string(c.SVG())
	for _, want := range []string{`points="100,150 150,50"`, `points="100,125 150,125"`, `points="100,100 200,100"`, ">title<", ">half<", ">a note<", ">s<", ">0 s<", ">10<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}
