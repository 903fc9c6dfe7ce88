// Package watch says when files may have changed: it watches folders, never files (editors and rsync replace files, and a watch
// follows the old one), waits until a burst of events is over, and ticks besides for file systems that send no events (NFS,
// FUSE). Folders that are removed and made again, and links that lead elsewhere, are found again.
//
// It does not look at files and knows nothing of inventories: its reader compares and so may be told too often, but never too
// rarely. The package imports nothing else of ours.
package watch
