package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"bulkshaper/inventory"
)

// Bounds on what is read, so that no file can make the program slow or large. The YAML library takes time that grows with the
// square of the nesting and of the number of keys.
const (
	maxFileSize = 1 << 20
	maxNesting  = 64
	maxKeys     = 20_000
	// maxNodes bounds the document with every alias replaced by what it stands for ("billion laughs").
	maxNodes = 500_000
)

type nodeKind uint8

const (
	badNode nodeKind = iota // reported already
	nullNode
	stringNode
	numberNode
	boolNode
	mappingNode
	sequenceNode
)

// node is a YAML value with its aliases resolved. Scalars keep the text as it is written: 010 and 1e2 are no numbers here.
type node struct {
	kind         nodeKind
	text         string
	pairs        []pair
	items        []*node
	line, column int
	// size is the number of nodes in it, those of aliases counted each time.
	size int
}

// pair is a key of a mapping and its value. merged says that it came in by a merge key (<<), which an own key overrides.
type pair struct {
	key, value *node
	merged     bool
}

// what names the kind for messages.
func (n *node) what() string {
	switch n.kind {
	case nullNode:
		return "empty"
	case mappingNode:
		return "a mapping"
	case sequenceNode:
		return "a list"
	case boolNode:
		return n.text + ", a truth value"
	case numberNode:
		return n.text + ", a number"
	}
	return fmt.Sprintf("%q", n.text)
}

func (n *node) isScalar() bool {
	return n.kind == stringNode || n.kind == numberNode || n.kind == boolNode
}

// readYAML makes a tree of data, nil for an empty document. Problems are the library's own, with their places.
func readYAML(file string, data []byte) (*node, inventory.Problems) {
	problem := func(line, column int, remedy, format string, args ...any) (*node, inventory.Problems) {
		return nil, inventory.Problems{{File: file, Line: line, Column: column, Message: readable(fmt.Sprintf(format, args...)), Remedy: readable(remedy)}}
	}
	if len(data) > maxFileSize {
		return problem(0, 0, "a config is far smaller: name the right file", "is larger than %d bytes", maxFileSize)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return problem(0, 0, "save it as UTF-8", "is UTF-16, not UTF-8")
	}
	if line, column, ok := badByte(data); ok {
		return problem(line, column, "save it as UTF-8", "is no text: a byte that is not UTF-8, or NUL")
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))

	tokens := lexer.Tokenize(string(data))
	if t, message := tooMuch(tokens); t != nil {
		return problem(t.Position.Line, t.Position.Column, "write it plainer", "%s", message)
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var place yaml.Error
		if errors.As(err, &place) && place.GetToken() != nil {
			at := place.GetToken().Position
			if lines := bytes.Split(data, []byte("\n")); at.Line <= len(lines) && bytes.Contains(leading(lines[max(at.Line, 1)-1]), []byte("\t")) {
				return problem(at.Line, at.Column, "indent with blanks", "a tab in the indentation, which YAML does not allow")
			}
			return problem(at.Line, at.Column, "look at the indentation, the brackets and the quotes there and in the line before", "YAML: %s", place.GetMessage())
		}
		return problem(1, 1, "look at the indentation, the brackets and the quotes", "YAML: %s", err.Error())
	}
	r := treeReader{file: file, anchors: map[string]*node{}}
	var root *node
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			at := doc.Body.GetToken().Position
			return problem(at.Line, max(at.Column, 1), "keep one", "a second YAML document begins")
		}
		root = r.read(doc.Body)
	}
	if root != nil && root.size > maxNodes {
		return problem(0, 0, "write it without aliases", "its aliases expand to more than %d values", maxNodes)
	}
	return root, r.problems
}

// badByte finds the first byte that is not UTF-8, or is NUL.
func badByte(data []byte) (line, column int, found bool) {
	line, column = 1, 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == 0, c == utf8.RuneError && size == 1:
			return line, column, true
		case c == '\n':
			line, column = line+1, 0
		}
		column++
		i += size
	}
	return 0, 0, false
}

// leading is the blanks and tabs that line begins with.
func leading(line []byte) []byte { return line[:len(line)-len(bytes.TrimLeft(line, " \t"))] }

// tooMuch finds the token at which a bound is passed. Nesting by indentation needs no bound: it takes the square of its depth
// in bytes.
func tooMuch(tokens token.Tokens) (*token.Token, string) {
	flow, keys := 0, 0
	line, onLine := 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			onLine++
		case token.MappingValueType:
			keys++
		}
		switch {
		case flow > maxNesting || onLine > maxNesting:
			return t, fmt.Sprintf("is nested more than %d deep", maxNesting)
		case keys > maxKeys:
			return t, fmt.Sprintf("has more than %d keys", maxKeys)
		}
	}
	return nil, ""
}

type treeReader struct {
	file     string
	anchors  map[string]*node
	problems inventory.Problems
}

func (r *treeReader) add(n *node, remedy, format string, args ...any) {
	n.kind = badNode
	r.problems = append(r.problems, inventory.Problem{File: r.file, Line: n.line, Column: n.column,
		Message: readable(fmt.Sprintf(format, args...)), Remedy: readable(remedy)})
}

func (r *treeReader) read(from ast.Node) *node {
	t := from.GetToken()
	n := &node{text: t.Value, line: t.Position.Line, column: t.Position.Column, size: 1}
	switch v := from.(type) {
	case *ast.NullNode:
		n.kind = nullNode
	case *ast.StringNode:
		n.kind = stringNode
	case *ast.LiteralNode:
		n.kind, n.text = stringNode, v.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind = numberNode
	case *ast.BoolNode:
		n.kind = boolNode
	case *ast.AnchorNode:
		// The name is known only behind the value, so an alias inside it is an unknown one and no cycle can come up.
		if v.Value == nil {
			r.add(n, "write the value behind it", "anchor without a value")
			return n
		}
		n = r.read(v.Value)
		r.anchors[v.Name.GetToken().Value] = n
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		known, ok := r.anchors[name]
		if !ok {
			r.add(n, "anchors (&"+name+") must stand above their aliases", "alias *%s has no anchor", name)
			return n
		}
		return known
	case *ast.MappingNode:
		n.kind = mappingNode
		if len(v.Values) > 0 && !v.IsFlowStyle {
			first := v.Values[0].Key.GetToken().Position
			n.line, n.column = first.Line, first.Column
		}
		for _, value := range v.Values {
			r.readPair(n, value)
		}
	case *ast.MappingValueNode:
		n.kind = mappingNode
		r.readPair(n, v)
	case *ast.SequenceNode:
		n.kind = sequenceNode
		for _, value := range v.Values {
			item := r.read(value)
			n.items = append(n.items, item)
			n.size += item.size
		}
	case *ast.TagNode:
		r.add(n, "quote the value if it is a text", "the tag %s is not understood", n.text)
	default:
		r.add(n, "write it plainer", "YAML %s is not understood", strings.ToLower(from.Type().String()))
	}
	n.size = min(n.size, maxNodes+1)
	return n
}

func (r *treeReader) readPair(into *node, from *ast.MappingValueNode) {
	value := r.read(from.Value)
	into.size = min(into.size+1+value.size, maxNodes+1)
	if _, merge := from.Key.(*ast.MergeKeyNode); merge {
		sources := []*node{value}
		if value.kind == sequenceNode {
			sources = value.items
		}
		for _, source := range sources {
			if source.kind != mappingNode {
				place := *source
				r.add(&place, "merge an alias of a mapping: <<: *name", "<< is %s, not a mapping", source.what())
				continue
			}
			if into.size > maxNodes {
				return // said by the caller
			}
			for _, p := range source.pairs {
				into.pairs = append(into.pairs, pair{key: p.key, value: p.value, merged: true})
			}
		}
		return
	}
	var key ast.Node = from.Key
	if explicit, ok := key.(*ast.MappingKeyNode); ok && explicit.Value != nil {
		key = explicit.Value
	}
	k := r.read(key)
	if !k.isScalar() {
		if k.kind != badNode {
			r.add(k, "write key: value", "a key is %s, not a text", k.what())
		}
		return
	}
	into.pairs = append(into.pairs, pair{key: k, value: value})
}
