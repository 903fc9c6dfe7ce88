// Package trust says who else may write a file. Whoever can write the inventory or the config decides how this node shapes, with
// the daemon's privilege; so nobody may but root and the user that the program runs as, as with sshd's StrictModes and sudo's
// sudoers:
//
//   - A file, and each folder on the way to it, belongs to one of the two. (An owner without permission to write gives it to himself.)
//     Who became root by sudo may use his own.
//   - Others may not write it, nor may a group but root's and the program's own. An access list that lets more in counts as well.
//   - Such a folder may be sticky, like /tmp, where it is only passed: there nobody removes or renames what belongs to somebody else.
//   - Links are followed one by one, as the kernel does: the folders that hold them count, too.
//   - A volume that the kubelet made for a ConfigMap may be written by everybody (mode 0777), but nobody in the pod can: it is mounted
//     read-only. That alone would not do: below systemd's ProtectSystem=strict everything is read-only for us, and for nobody else.
//
// Files are judged by fstat of what was opened, so that there is no moment between look and use. Folders are judged by path: who
// could exchange one in between would have had to be able to write it.
//
// The package imports nothing else of ours.
package trust
