package inventory

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxFileSize is the largest file that is read, in bytes. A server's file has a few kilobytes and the roles of 100,000 servers
// are below 10 MiB: what is larger is something else.
const MaxFileSize = 16 << 20

// document is the text of one file, without byte order mark, and the way from byte offsets to lines.
type document struct {
	file string
	text string
	data []byte // the same

	// at is the last place that was asked for: asking in ascending order costs one pass over the text in all.
	at    int
	place place
}

// place is a line and a column, both from 1; columns count characters.
type place struct{ line, column uint32 }

// problem is a problem at a byte offset of the text; without one (-1), of the file as a whole.
func (d *document) problem(offset int, message, remedy string) Problem {
	p := Problem{File: d.file, Message: message, Remedy: remedy}
	if offset >= 0 {
		at := d.placeOf(offset)
		p.Line, p.Column = int(at.line), int(at.column)
	}
	return p
}

// placeOf is the line and the column of a byte offset.
func (d *document) placeOf(offset int) place {
	offset = min(offset, len(d.text))
	if d.place.line == 0 || offset < d.at {
		d.at, d.place = 0, place{1, 1}
	}
	part := d.text[d.at:offset]
	if n := strings.Count(part, "\n"); n > 0 {
		d.place.line += uint32(n)
		d.place.column = 1
		part = part[strings.LastIndexByte(part, '\n')+1:]
	}
	d.place.column += uint32(utf8.RuneCountInString(part))
	d.at = offset
	return d.place
}

// openDocument takes off a byte order mark, and refuses what cannot be JSON in UTF-8 by the name of what it is.
func openDocument(file string, data []byte) (*document, *Problem) {
	refuse := func(message, remedy string) (*document, *Problem) {
		return nil, &Problem{File: file, Message: message, Remedy: remedy}
	}
	if len(data) > MaxFileSize {
		return refuse(tooLarge(int64(len(data))))
	}
	if name := wideEncoding(data); name != "" {
		return refuse("file is in "+name+", not UTF-8", "save it as UTF-8, for example with iconv -f "+name+" -t UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(bytes.Trim(data, " \t\r\n")) == 0 {
		return refuse(emptyFile, "write the JSON object again, or delete the file if it is not wanted")
	}
	return &document{file: file, text: string(data), data: data}, nil
}

// emptyFile is what is wrong with a file that has nothing in it.
const emptyFile = "file is empty"

func tooLarge(size int64) (message, remedy string) {
	return fmt.Sprintf("file has %d bytes, more than the %d MiB that are read", size, MaxFileSize>>20),
		"an inventory file is far smaller: move this one out of the folder, or name the right one"
}

// wideEncoding names the encoding of text in 16 or 32 bit units, by its byte order mark or by the zero bytes around the first
// character, which in JSON is ASCII; "" for anything else.
func wideEncoding(data []byte) string {
	head := make([]byte, 4)
	n := copy(head, data)
	switch {
	case n == 4 && bytes.Equal(head, []byte{0xff, 0xfe, 0, 0}), n == 4 && bytes.Equal(head, []byte{0, 0, 0xfe, 0xff}):
		return "UTF-32"
	case n >= 2 && head[0] == 0xff && head[1] == 0xfe, n >= 2 && head[0] == 0xfe && head[1] == 0xff:
		return "UTF-16"
	case n == 4 && head[0] == 0 && head[1] == 0 && head[2] == 0 && head[3] != 0:
		return "UTF-32BE"
	case n == 4 && head[0] != 0 && head[1] == 0 && head[2] == 0 && head[3] == 0:
		return "UTF-32LE"
	case n >= 2 && head[0] == 0 && head[1] != 0:
		return "UTF-16BE"
	case n >= 2 && head[0] != 0 && head[1] == 0:
		return "UTF-16LE"
	}
	return ""
}
