package drawing

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"strconv"
)

// SVG writes the picture as a document of its own.
func (d *Drawing) SVG() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" font-family="Go, Helvetica, Arial, sans-serif">`+"\n",
		number(d.width), number(d.height), number(d.width), number(d.height))
	fmt.Fprintf(&b, `<rect width="%s" height="%s" fill="#ffffff"/>`+"\n", number(d.width), number(d.height))
	for _, s := range d.shapes {
		switch s := s.(type) {
		case rect:
			fmt.Fprintf(&b, `<rect x="%s" y="%s" width="%s" height="%s"%s/>`+"\n", number(s.x), number(s.y), number(s.w), number(s.h), paint("fill", s.fill))
		case polyline:
			b.WriteString(`<polyline fill="none" stroke-linejoin="round" stroke-linecap="round"` + paint("stroke", s.stroke.Color))
			fmt.Fprintf(&b, ` stroke-width="%s"`, number(s.stroke.Width))
			if s.stroke.Dash > 0 {
				fmt.Fprintf(&b, ` stroke-dasharray="%s"`, number(s.stroke.Dash))
			}
			b.WriteString(` points="`)
			for i, p := range s.points {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(number(p.X) + "," + number(p.Y))
			}
			b.WriteString("\"/>\n")
		case text:
			fmt.Fprintf(&b, `<text x="%s" y="%s" font-size="%s" text-anchor="%s"%s`, number(s.at.X), number(s.at.Y), number(s.font.Size), s.font.Anchor,
				paint("fill", s.font.Color))
			if s.font.Bold {
				b.WriteString(` font-weight="bold"`)
			}
			b.WriteByte('>')
			_ = xml.EscapeText(&b, []byte(s.text)) // a buffer takes everything
			b.WriteString("</text>\n")
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// number has at most two decimals: less than can be seen.
func number(v float64) string {
	return strconv.FormatFloat(float64(int64(v*100+0.5))/100, 'f', -1, 64)
}

func paint(what string, c color.NRGBA) string {
	s := fmt.Sprintf(` %s="#%02x%02x%02x"`, what, c.R, c.G, c.B)
	if c.A != 255 {
		s += fmt.Sprintf(` %s-opacity="%s"`, what, number(float64(c.A)/255))
	}
	return s
}
