// Package ask finds the daemon of a node and asks it: at its socket in the run folder, else at its port. It says of a daemon that is not to
// be asked whether there is none, or one that this user may not ask. It decides nothing and prints nothing.
package ask
