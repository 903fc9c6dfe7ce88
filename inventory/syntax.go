package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep lists and objects may nest. Hand-written files have a handful of levels.
const maxDepth = 64

// maxFileProblems is how many problems of one file are told; one broken export can have a million.
const maxFileProblems = 1000

// scanner goes through the tokens of a document and knows where each begins.
type scanner struct {
	doc *document
	dec *jsontext.Decoder
	// namesOnly leaves out the text of values.
	namesOnly bool
}

func newScanner(doc *document) *scanner {
	// Names that occur twice are our own business: the decoder would stop at the first.
	return &scanner{doc: doc, dec: jsontext.NewDecoder(bytes.NewBuffer(doc.data), jsontext.AllowDuplicateNames(true))}
}

// token is one token. text is the value of a string, the literal of a number, and "" for all others.
type token struct {
	kind   jsontext.Kind
	text   string
	offset int
	// name says that this is the name of a member.
	name bool
}

// next is the next token; io.EOF behind the last.
func (s *scanner) next() (token, error) {
	kind := s.dec.PeekKind()
	switch kind {
	case jsontext.KindString, jsontext.KindNumber, jsontext.KindNull, jsontext.KindTrue, jsontext.KindFalse:
		in, length := s.dec.StackIndex(s.dec.StackDepth())
		value, err := s.dec.ReadValue()
		if err != nil {
			return token{}, err
		}
		t := token{kind: kind, offset: int(s.dec.InputOffset()) - len(value), name: in == jsontext.KindBeginObject && length%2 == 0}
		switch {
		case s.namesOnly && !t.name:
		case kind == jsontext.KindString:
			text, err := jsontext.AppendUnquote(nil, value)
			if err != nil {
				return token{}, fmt.Errorf("read string: %w", err)
			}
			t.text = string(text)
		case kind == jsontext.KindNumber:
			t.text = string(value)
		}
		return t, nil
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return token{}, err
	}
	return token{kind: kind, offset: int(s.dec.InputOffset()) - 1}, nil
}

// checkSyntax finds what is wrong with a document as JSON: grammar, encoding, depth, a second value, names that occur twice in
// one object. Where significant says so of the depth and of the name in lower case, names that differ only in upper and lower
// case are a problem too: there, one reader would take the one and another the other.
func checkSyntax(doc *document, significant func(depth int, folded string) bool) Problems {
	var problems Problems
	var names []seenNames // in each open object
	s := newScanner(doc)
	s.namesOnly = true
	for values := 0; ; {
		t, err := s.next()
		depth := s.dec.StackDepth()
		switch {
		case errors.Is(err, io.EOF) && values > 0:
			return problems
		case err != nil:
			return append(problems, syntaxProblem(doc, err))
		case depth > maxDepth:
			return append(problems, doc.problem(t.offset, fmt.Sprintf("lists and objects nest deeper than %d levels", maxDepth),
				"this is no inventory file: move it out of the folder"))
		case depth == 0 && values > 0 || depth == 1 && values > 0 && opens(t.kind):
			return append(problems, doc.problem(t.offset, "a second value follows the first",
				"a file has one JSON object: delete what follows, or give it a file of its own"))
		}
		if opens(t.kind) {
			if len(names) < cap(names) {
				names = names[:len(names)+1]
				names[len(names)-1].clear()
			} else {
				names = append(names, seenNames{})
			}
		} else if t.kind == jsontext.KindEndObject || t.kind == jsontext.KindEndArray {
			names = names[:len(names)-1]
		}
		if t.name && len(problems) < maxFileProblems {
			if problem := checkName(doc, t, &names[len(names)-1], depth, significant); problem != nil {
				problems = append(problems, *problem)
			}
		}
		if depth == 0 {
			values++
		}
	}
}

func opens(k jsontext.Kind) bool {
	return k == jsontext.KindBeginObject || k == jsontext.KindBeginArray
}

// seenNames are the names of an object, each under a key. A map is only made for more of them than objects usually have.
type seenNames struct {
	few  [][2]string // key and name
	many map[string]string
}

const fewNames = 16

func (n *seenNames) clear() { n.few, n.many = n.few[:0], nil }

func (n *seenNames) get(key string) (name string, there bool) {
	if n.many != nil {
		name, there = n.many[key]
		return name, there
	}
	for _, pair := range n.few {
		if pair[0] == key {
			return pair[1], true
		}
	}
	return "", false
}

// put adds a key that is not there.
func (n *seenNames) put(key, name string) {
	switch {
	case n.many != nil:
		n.many[key] = name
	case len(n.few) < fewNames:
		if n.few == nil {
			n.few = make([][2]string, 0, fewNames/2)
		}
		n.few = append(n.few, [2]string{key, name})
	default:
		n.many = make(map[string]string, 2*fewNames)
		for _, pair := range n.few {
			n.many[pair[0]] = pair[1]
		}
		n.many[key] = name
	}
}

// checkName compares the name t with those seen in the same object, and adds it to them: the first spelling under the name in
// lower case, further ones, where that is allowed, as they are.
func checkName(doc *document, t token, seen *seenNames, depth int, significant func(int, string) bool) *Problem {
	lower := strings.ToLower(t.text)
	first, there := seen.get(lower)
	if !there {
		seen.put(lower, t.text)
		return nil
	}
	const exactly = "\x00"
	_, again := seen.get(exactly + t.text)
	switch {
	case first == t.text || again:
		p := doc.problem(t.offset, fmt.Sprintf("key %q occurs twice in one object", t.text), "keep one of the two")
		return &p
	case significant(depth, lower):
		p := doc.problem(t.offset, fmt.Sprintf("keys %q and %q of one object differ only in case", first, t.text), "keep one of the two")
		return &p
	}
	seen.put(exactly+t.text, t.text)
	return nil
}

// syntaxProblem says what a decoder's error is about: the usual mistakes by name, the others in the decoder's words.
func syntaxProblem(doc *document, err error) Problem {
	var syntactic *jsontext.SyntacticError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return cutOff(doc)
	}
	if !errors.As(err, &syntactic) {
		return doc.problem(-1, err.Error(), "")
	}
	offset := int(syntactic.ByteOffset)
	rest := doc.text[min(offset, len(doc.text)):]
	cause := "not JSON"
	if syntactic.Err != nil {
		cause = strings.TrimPrefix(syntactic.Err.Error(), "jsontext: ")
	}
	starts := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(rest, p) {
				return true
			}
		}
		return false
	}
	remedy := "correct the JSON there"
	switch {
	case strings.Trim(rest, " \t\r\n") == "":
		return cutOff(doc)
	case starts(",") && closesNext(rest[1:]):
		cause, remedy = "a comma stands before the closing bracket", "delete the comma"
	case starts("//", "/*", "#"):
		cause, remedy = "a comment, which JSON does not have", "delete the comment"
	case starts("NaN", "Infinity", "-Infinity", "nan", "inf"):
		cause, remedy = "NaN and Infinity are not JSON", "write null, or leave the key out"
	case starts("True", "False", "None"):
		cause, remedy = "True, False and None are Python, not JSON", "write true, false or null"
	case starts("'"):
		cause, remedy = "a string in single quotes, which JSON does not have", "use double quotes"
	case starts("<<<<<<<", "=======", ">>>>>>>"):
		cause, remedy = "a merge conflict was left in the file", "resolve it"
	case strings.Contains(cause, "at start of value") && rest != "" && isWord(rest[0]):
		cause, remedy = "a word without quotes", "put it into double quotes"
	case strings.Contains(cause, "expecting ','") && isDigit(rest[0]) && offset > 0 && doc.text[offset-1] == '0':
		cause, remedy = "a number with a leading zero, which JSON does not have", "delete the zero, or write a string in quotes if it belongs to it"
	case strings.Contains(cause, "expecting ','"):
		remedy = "a comma or a closing bracket is missing before it"
	case cause == "invalid UTF-8":
		remedy = "save the file as UTF-8"
	}
	return doc.problem(offset, cause, remedy)
}

func cutOff(doc *document) Problem {
	return doc.problem(len(doc.text), "file ends in the middle of the JSON",
		"it was cut off, or is still being written: write it whole, best under another name and renamed")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

// closesNext tells whether the next character that counts is a closing bracket.
func closesNext(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && (s[0] == '}' || s[0] == ']')
}
