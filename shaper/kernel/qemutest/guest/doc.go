// Package guest has the tests of qemutest that run inside the virtual machine, and its first process: the test binary is the
// machine's init, too. They are built with the tag "system" and make no sense elsewhere.
package guest
