package inventory

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// fault is what is wrong with a value, before it has a place.
type fault struct{ message, remedy string }

// checkName tells why a canonical name cannot be one.
func checkServerName(name string) *fault {
	switch {
	case name == "":
		return &fault{"name is empty", "write the server's name"}
	case len(name) > 253:
		return &fault{fmt.Sprintf("name %.40q... has more than 253 bytes", name), "write the host name"}
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' }):
		return &fault{fmt.Sprintf("name %q has a blank, a slash or a control character in it", name), "write one host name"}
	case strings.Contains("."+name+".", ".."):
		return &fault{fmt.Sprintf("name %q has an empty part between dots", name), "write the host name"}
	}
	return nil
}

// maxWord is how long a cabinet, a datacenter or a role may be, in bytes. They stand in every log line and metric that is about them.
const maxWord = 253

// cabinetOf reads a cabinet or a datacenter: a string or a whole number; "" where it is unknown.
func cabinetOf(v gjson.Result, what string) (string, *fault) {
	remedy := "write a string or a whole number, or null where it is unknown"
	switch v.Type {
	case gjson.Null:
		return "", nil
	case gjson.String:
		s := strings.TrimSpace(v.Str)
		if strings.ContainsFunc(s, unicode.IsControl) {
			return "", &fault{fmt.Sprintf("%s %q has a control character in it", what, abbreviate(s)), remedy}
		}
		return s, tooLong(what, s)
	case gjson.Number:
		if v.Raw == "-0" {
			return "0", nil
		}
		if strings.ContainsAny(v.Raw, ".eE") {
			return "", &fault{fmt.Sprintf("%s %s is not a whole number", what, abbreviate(v.Raw)), remedy}
		}
		return v.Raw, tooLong(what, v.Raw)
	}
	return "", &fault{fmt.Sprintf("%s is %s", what, describe(v)), remedy}
}

// tooLong refuses a word of more than maxWord bytes.
func tooLong(what, word string) *fault {
	if len(word) <= maxWord {
		return nil
	}
	return &fault{fmt.Sprintf("%s %.40q... has more than %d bytes", what, word, maxWord), "write the short name that people use"}
}

// describe names a JSON value that is of the wrong kind.
func describe(v gjson.Result) string {
	switch {
	case v.IsArray():
		return "a list"
	case v.IsObject():
		return "an object"
	case v.Type == gjson.String:
		return fmt.Sprintf("%q", abbreviate(v.Str))
	}
	return abbreviate(v.Raw)
}

// abbreviate keeps messages readable whatever was written.
func abbreviate(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

const addressRemedy = "write IPv4 or IPv6 addresses, as in 10.1.2.3 or 2001:db8::3"

// addressOf reads a server's own address. An address with a mask is that host; ok is false for what counts as absent.
func addressOf(v gjson.Result) (a netip.Addr, ok bool, wrong *fault) {
	if v.Type != gjson.String {
		remedy := addressRemedy
		if v.IsObject() {
			remedy = "name the path of the address inside of it in inventory.fields.addresses, as in addresses.#.address"
		}
		return a, false, &fault{"address is " + describe(v), remedy}
	}
	text := strings.TrimSpace(v.Str)
	if text == "" {
		return a, false, nil
	}
	shown := abbreviate(text)
	network := false
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return a, false, addressFault(text, err)
		}
		a = p.Addr()
		network = p.Bits() < a.BitLen()-1 && p.Masked().Addr() == a
	} else {
		var err error
		if a, err = netip.ParseAddr(text); err != nil {
			return a, false, addressFault(text, err)
		}
	}
	if a.Zone() != "" {
		return a, false, &fault{fmt.Sprintf("address %q has a zone, which only means something on one machine", shown), addressRemedy}
	}
	a = a.Unmap()
	if kind := notAHost(a); kind != "" {
		return a, false, &fault{fmt.Sprintf("address %q is %s", shown, kind), "write the address that others reach this server at"}
	}
	if network {
		return a, false, &fault{fmt.Sprintf("address %q is a network, not a host", shown),
			"write the host's address; what the server answers for besides belongs in prefixes"}
	}
	return a, true, nil
}

// notAHost says what an address is that no server can have for others; "" for all that can be a destination.
func notAHost(a netip.Addr) string {
	switch {
	case a.IsUnspecified():
		return "the unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast():
		return "a multicast address"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	}
	return ""
}

// addressFault says why text is no address, from the text itself where that is clearer than the parser's words.
func addressFault(text string, err error) *fault {
	cause := err.Error()
	shown := abbreviate(text)
	host, _, masked := strings.Cut(text, "/")
	_, hostErr := netip.ParseAddr(host)
	switch {
	case strings.Contains(cause, "leading zero"):
		return &fault{fmt.Sprintf("address %q has a leading zero, which some programs read as octal", shown), "write it without leading zeros"}
	case strings.ContainsAny(text, ", ;"):
		return &fault{fmt.Sprintf("address %q is more than one address in a string", shown), `write a list of strings, as in ["10.1.2.3", "10.1.2.4"]`}
	case masked && hostErr == nil:
		return &fault{fmt.Sprintf("address %q has a mask that is not a number of bits", shown), "write it as in 10.1.2.3/24, or without a mask"}
	case strings.Count(text, ":") == 1 && strings.Contains(text, "."):
		return &fault{fmt.Sprintf("address %q has a port", shown), "write the address alone"}
	case strings.Trim(host, "0123456789.") == "" || strings.Contains(text, ":") && strings.Trim(host, "0123456789abcdefABCDEF.:") == "":
		return &fault{fmt.Sprintf("address %q is malformed", shown), addressRemedy}
	}
	return &fault{fmt.Sprintf("address %q is a name or something else that is no address", shown),
		addressRemedy + "; names are not looked up"}
}

// prefixOf reads a prefix that a server answers for. A bare address is a prefix of one host.
func prefixOf(v gjson.Result) (p netip.Prefix, ok bool, wrong *fault) {
	const remedy = "write prefixes as in 10.244.14.0/24"
	if v.Type != gjson.String {
		return p, false, &fault{"prefix is " + describe(v), remedy}
	}
	text := strings.TrimSpace(v.Str)
	if text == "" {
		return p, false, nil
	}
	shown := abbreviate(text)
	var err error
	if strings.Contains(text, "/") {
		p, err = netip.ParsePrefix(text)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil {
			p = netip.PrefixFrom(a.WithZone(""), a.BitLen())
		}
	}
	switch {
	case err != nil && strings.Contains(err.Error(), "leading zero"):
		return p, false, &fault{fmt.Sprintf("prefix %q has a leading zero, which some programs read as octal", shown), "write it without leading zeros"}
	case err != nil || strings.Contains(text, "%"):
		return p, false, &fault{fmt.Sprintf("prefix %q is malformed", shown), remedy}
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return p, false, &fault{fmt.Sprintf("prefix %q covers more than the v4-mapped addresses", shown), "write it as an IPv4 prefix"}
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	switch {
	case p.Masked() != p:
		return p, false, &fault{fmt.Sprintf("prefix %q has host bits set", shown), fmt.Sprintf("write %s, or put the address among the addresses", p.Masked())}
	case p.Bits() == 0:
		return p, false, &fault{fmt.Sprintf("prefix %q covers every address", shown), "name what this server answers for and no more"}
	case notAHost(p.Addr()) != "" && !(p.Addr().IsUnspecified() && p.Bits() < 8): // 0.0.0.0/1 is half of all addresses
		return p, false, &fault{fmt.Sprintf("prefix %q is of %s", shown, notAHost(p.Addr())), "delete it"}
	}
	return p, true, nil
}
