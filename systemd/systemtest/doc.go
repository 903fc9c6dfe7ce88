// Package systemtest has the tests that need a whole system around the daemon: systemd, booted in a container, and a real
// Prometheus. They are built with the tag "system", run by `make test-system` as root, and install by themselves what they
// need from Debian.
//
// Nothing is left behind but a minimal Debian in the user's cache folder, which may be deleted, and the machine's own network
// is not touched: containers are started in a network namespace made for them.
package systemtest
