package override

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"bulkshaper/shaper/config"
)

// Override is a rate and a ceil for one class of one interface, until Until.
type Override struct {
	Interface string
	Class     string
	// Rate and Ceil are fixed or in percent of the link. Ceil has the zero Rate where it was not given: then it is the rate.
	Rate, Ceil config.Rate
	// Since and Until are wall clock times in whole seconds, UTC.
	Since, Until time.Time
	// Why and By are for people, Why "" where nothing was said.
	Why, By string
}

// New is an override that begins at now and lasts d, in whole seconds.
func New(iface, class string, rate, ceil config.Rate, now time.Time, d time.Duration) Override {
	since := now.Round(0).UTC().Truncate(time.Second)
	return Override{Interface: iface, Class: class, Rate: rate, Ceil: ceil, Since: since, Until: since.Add(d.Truncate(time.Second))}
}

// Say puts words to o: why, and by whom.
func (o *Override) Say(why, by string) error {
	o.Why, o.By = strings.TrimSpace(why), by
	return errors.Join(checkText("why", o.Why), checkText("by", o.By))
}

// Active tells whether o has not ended at now, by the wall clock.
func (o Override) Active(now time.Time) bool { return now.Round(0).Before(o.Until) }

// Same tells whether o and p are one override, also where one was read and the other written.
func (o Override) Same(p Override) bool {
	return o.Interface == p.Interface && o.Class == p.Class && o.Rate == p.Rate && o.Ceil == p.Ceil && o.Since.Equal(p.Since) &&
		o.Until.Equal(p.Until) && o.Why == p.Why && o.By == p.By
}

// String is what o does, in words.
func (o Override) String() string {
	text := fmt.Sprintf("%s at %s", o.Class, o.Rate)
	if !o.Ceil.IsZero() {
		text += ", ceil " + o.Ceil.String()
	}
	return text
}

// Of are those of an interface.
func Of(list []Override, iface string) []Override {
	return slices.DeleteFunc(slices.Clone(list), func(o Override) bool { return o.Interface != iface })
}

// Active are those that have not ended at now.
func Active(list []Override, now time.Time) []Override {
	return slices.DeleteFunc(slices.Clone(list), func(o Override) bool { return !o.Active(now) })
}

// Without is list without the overrides of a class, all of them where class is "".
func Without(list []Override, iface, class string) []Override {
	return slices.DeleteFunc(slices.Clone(list), func(o Override) bool {
		return o.Interface == iface && (class == "" || o.Class == class)
	})
}

const (
	// version is that of the file's format.
	version = 1
	// maxOverrides and maxFileSize bound what is read.
	maxOverrides = 1000
	maxFileSize  = 1 << 20
	maxWhy       = 200
)

// file is the format of the run folder's overrides.state. Its names are exact, and others are refused.
type file struct {
	Version   int     `json:"version"`
	Overrides []entry `json:"overrides"`
}

type entry struct {
	Interface string    `json:"interface"`
	Class     string    `json:"class"`
	Rate      string    `json:"rate"`
	Ceil      string    `json:"ceil,omitzero"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Why       string    `json:"why,omitzero"`
	By        string    `json:"by,omitzero"`
}

// parse reads the file's content, whole or not at all.
func parse(data []byte) ([]Override, error) {
	var f file
	in := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(false))
	if err := json.UnmarshalDecode(in, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind the value")
	}
	if f.Version != version {
		return nil, fmt.Errorf("version %d is not known; this program writes %d", f.Version, version)
	}
	if len(f.Overrides) > maxOverrides {
		return nil, fmt.Errorf("%d overrides are more than %d", len(f.Overrides), maxOverrides)
	}
	var list []Override
	for i, e := range f.Overrides {
		o, err := e.override()
		if err != nil {
			return nil, fmt.Errorf("override %d: %w", i+1, err)
		}
		if slices.ContainsFunc(list, func(p Override) bool { return p.Interface == o.Interface && p.Class == o.Class }) {
			return nil, fmt.Errorf("override %d: class %s of %s has one already", i+1, o.Class, o.Interface)
		}
		list = append(list, o)
	}
	return list, nil
}

func (e entry) override() (o Override, err error) {
	o = Override{Interface: e.Interface, Class: e.Class, Since: e.Since.UTC(), Until: e.Until.UTC(), Why: e.Why, By: e.By}
	if o.Interface == "" || o.Class == "" {
		return o, errors.New("interface or class is missing")
	}
	if o.Rate, err = parseRate(e.Rate); err != nil {
		return o, err
	}
	if e.Ceil != "" {
		if o.Ceil, err = parseRate(e.Ceil); err != nil {
			return o, fmt.Errorf("ceil: %w", err)
		}
	}
	if d := o.Until.Sub(o.Since); d < Shortest || d > Longest {
		return o, fmt.Errorf("it lasts %s, not between %s and %s", d, Shortest, Longest)
	}
	return o, errors.Join(checkText("why", o.Why), checkText("by", o.By))
}

// format is the file's content.
func format(list []Override) ([]byte, error) {
	f := file{Version: version, Overrides: []entry{}}
	for _, o := range list {
		f.Overrides = append(f.Overrides, entry{o.Interface, o.Class, o.Rate.String(), o.Ceil.String(), o.Since.UTC(), o.Until.UTC(), o.Why, o.By})
	}
	data, err := json.Marshal(f, jsontext.WithIndent("  "))
	return append(data, '\n'), err
}

// checkText keeps what goes to terminals and logs to one printable line.
func checkText(what, text string) error {
	if len(text) > maxWhy {
		return fmt.Errorf("%s has %d bytes, more than %d", what, len(text), maxWhy)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return fmt.Errorf("%s has characters that cannot be printed on one line", what)
	}
	return nil
}
