// Package hitless has the tests of what the whole program promises about packets while it works: inventories change at random, it is
// killed anywhere, and still each packet is counted in a class that the plan before or the one after gives its destination, none
// goes past the classes and none is lost. They take the path of the program, from the inventory over shaper.Desire and
// shaper.Converge to the real kernel, in a namespace of their own with real packets.
//
// Without tags a short form runs; with the tag "system" the long one.
package hitless
