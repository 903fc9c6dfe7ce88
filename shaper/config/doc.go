// Package config reads config.yaml and the flags into a checked Config. It imports inventory and tc.
package config
