//go:build !race

package layout

const underRace = false
