// Package explain answers which class a server or an address is in, why, who shares it, and what the kernel would really do: from the files
// with an Explainer, and with a Rest from the daemon and the kernel alone where the files are broken. It prints nothing.
package explain
