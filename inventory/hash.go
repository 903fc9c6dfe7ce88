package inventory

import (
	"encoding/binary"
	"net/netip"

	"github.com/cespare/xxhash/v2"
)

// hashBits is how many bits a hash of an inventory has: few enough for a float64, the number of Prometheus, to hold it exactly, and
// enough for two inventories of a fleet never to meet in one by chance.
const hashBits = 48

// Hash is a number below 2^48 that nodes with one inventory have in common, wherever their files lie: it is of what the inventory says
// of servers and roles, not of the files or of warnings. Versions of this program agree on it, since it is compared across a fleet that
// is being upgraded. It takes some milliseconds for 100,000 servers.
func (inv *Inventory) Hash() uint64 {
	digest := xxhash.New()
	row := appendTexts(nil, inv.Roles)
	_, _ = digest.Write(row) // a digest takes every write whole
	for _, s := range inv.Servers {
		row = appendText(row[:0], s.Name)
		row = appendTexts(row, s.Names)
		row = appendText(row, s.Cabinet)
		row = appendText(row, s.Datacenter)
		row = appendTexts(row, s.Roles)
		row = binary.AppendUvarint(row, uint64(len(s.Addresses)))
		for _, a := range s.Addresses {
			row = appendAddress(row, a)
		}
		row = binary.AppendUvarint(row, uint64(len(s.Prefixes)))
		for _, p := range s.Prefixes {
			row = binary.AppendUvarint(appendAddress(row, p.Addr()), uint64(p.Bits()))
		}
		_, _ = digest.Write(row)
	}
	return digest.Sum64() >> (64 - hashBits)
}

// Lengths go before what has any, so that no two rows of values make one row of bytes.

func appendText(row []byte, s string) []byte {
	return append(binary.AppendUvarint(row, uint64(len(s))), s...)
}

func appendTexts(row []byte, all []string) []byte {
	row = binary.AppendUvarint(row, uint64(len(all)))
	for _, s := range all {
		row = appendText(row, s)
	}
	return row
}

func appendAddress(row []byte, a netip.Addr) []byte {
	all := a.As16()
	return append(row, all[:]...)
}
