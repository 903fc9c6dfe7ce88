// Package kubernetes has the manifest of a DaemonSet, the config that goes into its ConfigMap, and their tests; those against
// Kubernetes' own types are in schematest, a module of its own.
package kubernetes
