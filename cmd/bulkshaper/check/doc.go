// Package check reads config and inventory as the daemon would and reports all that is wrong, also what only a running daemon refuses, and
// what an edit changes on a node. It changes nothing and prints nothing.
package check
