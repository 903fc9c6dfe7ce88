package inventory

import "strings"

// CanonicalName is name trimmed, in lower case, without a final dot.
func CanonicalName(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
}

// shortName is what stands before the first dot of a canonical name.
func shortName(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return short
}

// nameIndex finds servers by name. Shops write the FQDN here and the short name there, so one stands for the other, but only
// where that leaves no doubt which server is meant.
type nameIndex struct {
	exact map[string]*Server
	// short has the server for each first label; nil where two servers share the label.
	short map[string]*Server
}

func newNameIndex(servers []*Server) nameIndex {
	ix := nameIndex{exact: make(map[string]*Server, 2*len(servers)), short: make(map[string]*Server, len(servers))}
	for _, s := range servers {
		for _, name := range s.Names {
			ix.exact[name] = s
			label := shortName(name)
			if other, taken := ix.short[label]; taken && other != s {
				ix.short[label] = nil
			} else {
				ix.short[label] = s
			}
		}
	}
	return ix
}

// find resolves a canonical name: as it is written, else a short name as that of the only server with this first label, else
// an FQDN as that of the only server with this first label, if nobody gave that server an FQDN.
func (ix nameIndex) find(name string) (*Server, bool) {
	if s, ok := ix.exact[name]; ok {
		return s, true
	}
	s := ix.short[shortName(name)]
	if s == nil {
		return nil, false
	}
	if strings.Contains(name, ".") && s.hasFQDN() {
		return nil, false
	}
	return s, true
}

func (s *Server) hasFQDN() bool {
	for _, name := range s.Names {
		if strings.Contains(name, ".") {
			return true
		}
	}
	return false
}
