// Package ansible has a role that rolls bulkshaper out, and holds it to itself; systemd/systemtest runs it.
package ansible
