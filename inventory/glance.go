package inventory

import "unicode/utf8"

// glance goes over a document once. Either it is certain that checkSyntax would find nothing wrong, and then knows the members of the
// document's object; or it is not, and checkSyntax has to look. It never says what is wrong: nearly all files are fine, and for those
// this takes a tenth of the time.
type glance struct {
	text    string
	members []member
	// names are of all objects that are open, inner ones last, each as a hash of its lower case.
	names []uint64
	high  bool // a byte that is not ASCII was met
}

// member is a member at the top of a document's object: its name, where that begins, and where its value stands.
type member struct {
	key       string
	at        int
	value, to int
}

const (
	nowhere = -1 // the position after what is not certain to be right
	// manyNames is how many names of one object are compared with each other.
	manyNames = 1024
)

// at looks at text. The members are valid until the next call.
func (g *glance) at(text string) (members []member, certain bool) {
	g.text, g.members, g.names, g.high = text, g.members[:0], g.names[:0], false
	i := g.space(0)
	if i == len(text) || text[i] != '{' {
		return nil, false
	}
	if i = g.object(i, 1); i == nowhere || g.space(i) != len(text) {
		return nil, false
	}
	return g.members, !g.high || utf8.ValidString(text)
}

// space is the position of the first byte from i on that is no white space.
func (g *glance) space(i int) int {
	for i < len(g.text) && (g.text[i] == ' ' || g.text[i] == '\n' || g.text[i] == '\r' || g.text[i] == '\t') {
		i++
	}
	return i
}

// is tells whether c stands at i.
func (g *glance) is(i int, c byte) bool { return i < len(g.text) && g.text[i] == c }

// value is the position after the value that begins at i, within depth lists and objects.
func (g *glance) value(i, depth int) int {
	if i == len(g.text) {
		return nowhere
	}
	switch c := g.text[i]; {
	case c == '"':
		return g.string(i)
	case c == '{':
		return g.object(i, depth+1)
	case c == '[':
		return g.list(i, depth+1)
	case c == '-' || isDigit(c):
		return g.number(i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if end := i + len(word); end <= len(g.text) && g.text[i:end] == word {
			return end
		}
	}
	return nowhere
}

func (g *glance) list(i, depth int) int {
	if depth > maxDepth {
		return nowhere
	}
	if i = g.space(i + 1); g.is(i, ']') {
		return i + 1
	}
	for {
		if i = g.value(i, depth); i == nowhere {
			return nowhere
		}
		switch i = g.space(i); {
		case g.is(i, ']'):
			return i + 1
		case !g.is(i, ','):
			return nowhere
		}
		i = g.space(i + 1)
	}
}

func (g *glance) object(i, depth int) int {
	if depth > maxDepth {
		return nowhere
	}
	if i = g.space(i + 1); g.is(i, '}') {
		return i + 1
	}
	first := len(g.names)
	for {
		at := i
		if i = g.name(i, first); i == nowhere {
			return nowhere
		}
		after := i
		if i = g.space(i); !g.is(i, ':') {
			return nowhere
		}
		i = g.space(i + 1)
		value := i
		if i = g.value(i, depth); i == nowhere {
			return nowhere
		}
		if depth == 1 {
			g.members = append(g.members, member{key: g.text[at+1 : after-1], at: at, value: value, to: i})
		}
		switch i = g.space(i); {
		case g.is(i, '}'):
			g.names = g.names[:first]
			return i + 1
		case !g.is(i, ','):
			return nowhere
		}
		i = g.space(i + 1)
	}
}

// name is the position after the name at i, of an object whose names begin at first. It is certain only of ASCII without escapes, and
// where no other name of the object has the same hash, so may be the same in another case. (The 64 bit FNV-1a of the letters with bit 5,
// which tells upper from lower case, set.)
func (g *glance) name(i, first int) int {
	if !g.is(i, '"') {
		return nowhere
	}
	const offset, prime, lower = 14695981039346656037, 1099511628211, 0x20
	hash := uint64(offset)
	for i++; i < len(g.text); i++ {
		c := g.text[i]
		if c == '"' {
			break
		}
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			return nowhere
		}
		hash = (hash ^ uint64(c|lower)) * prime
	}
	if i == len(g.text) || len(g.names)-first == manyNames {
		return nowhere
	}
	for _, other := range g.names[first:] {
		if other == hash {
			return nowhere
		}
	}
	g.names = append(g.names, hash)
	return i + 1
}

// string is the position after the string at i. Halves of surrogate pairs are left to checkSyntax.
func (g *glance) string(i int) int {
	for i++; i < len(g.text); i++ {
		switch c := g.text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return nowhere
		case c >= utf8.RuneSelf:
			g.high = true
		case c == '\\':
			if i++; i == len(g.text) {
				return nowhere
			}
			switch g.text[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				code, ok := g.hexadecimal(i + 1)
				if !ok || code>>11 == 0xd800>>11 {
					return nowhere
				}
				i += 4
			default:
				return nowhere
			}
		}
	}
	return nowhere
}

// hexadecimal is the number that the four digits at i are.
func (g *glance) hexadecimal(i int) (n uint32, ok bool) {
	if i+4 > len(g.text) {
		return 0, false
	}
	for _, c := range []byte(g.text[i : i+4]) {
		switch {
		case isDigit(c):
			n = n<<4 | uint32(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | uint32(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// number is the position after the number at i.
func (g *glance) number(i int) int {
	if g.is(i, '-') {
		i++
	}
	if g.is(i, '0') {
		i++
	} else if i = g.digits(i); i == nowhere {
		return nowhere
	}
	if g.is(i, '.') {
		if i = g.digits(i + 1); i == nowhere {
			return nowhere
		}
	}
	if g.is(i, 'e') || g.is(i, 'E') {
		if i++; g.is(i, '+') || g.is(i, '-') {
			i++
		}
		return g.digits(i)
	}
	return i
}

// digits is the position after the digits at i, of which there must be one.
func (g *glance) digits(i int) int {
	first := i
	for i < len(g.text) && isDigit(g.text[i]) {
		i++
	}
	if i == first {
		return nowhere
	}
	return i
}
