// Package plan turns policy and the facts of the link into the whole wanted state of the interface, as tc values. It is
// pure; it imports config, policy and tc.
package plan
