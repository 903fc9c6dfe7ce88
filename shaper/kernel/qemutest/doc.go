// Package qemutest has the tests that need other kernels than that of the machine: they boot Debian's own, the oldest that is
// supported and the newest, in qemu, and run there the tests of shaper/kernel, shaper/fakekernel and cmd/bulkshaper, and those of
// qemutest/guest, for what only a distribution's kernel has (fq_codel, VLANs, bonds, counted filters).
//
// They are built with the tag "system" and run by `make test-system` as root. What they need they install from Debian by
// themselves, but for the kernels: those are only unpacked, into the user's cache folder, which may be deleted. The virtual
// machine has no network device and no disk; it runs in software, so that it needs no KVM and measures no rates.
package qemutest
