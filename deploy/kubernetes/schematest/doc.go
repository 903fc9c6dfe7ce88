// Package schematest holds the manifest to Kubernetes' own types and to its Pod Security Standards. It is a module of its own, so that
// the program's has nothing of Kubernetes.
package schematest
