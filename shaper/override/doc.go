// Package override holds rates that people put over the config's for a while: "cross-cabinet at 50mbit for half an hour".
//
// An override has an end on the wall clock, so that nobody has to remember to take it back. All of one run folder stand in one
// small file, which root and the daemon's user may write and nobody else; whoever shapes an interface (the daemon, plan, apply)
// reads it. What is invalid is refused when it is given; what becomes invalid later, since the config or the inventory changed, is
// dropped and told, and never keeps the rest from being used.
//
// It imports shaper/config and shaper/tc: how a rate is written, and which rates go together, is theirs to know.
package override
