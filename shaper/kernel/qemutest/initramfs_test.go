//go:build system

package qemutest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// initramfs writes a cpio archive in the format newc (Documentation/driver-api/early-userspace/buffer-format.rst).
type initramfs struct {
	t    *testing.T
	file *os.File
	out  *bufio.Writer
	made map[string]bool
	at   int
}

func newInitramfs(t *testing.T, name string) *initramfs {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return &initramfs{t: t, file: file, out: bufio.NewWriter(file), made: map[string]bool{".": true, "/": true}}
}

// entry writes one file or folder.
func (a *initramfs) entry(name string, mode uint32, content []byte) {
	a.t.Helper()
	write := func(s string) { // errors stay in the writer until close
		n, _ := a.out.WriteString(s)
		for ; n%4 != 0; n++ {
			_ = a.out.WriteByte(0)
		}
	}
	a.at++
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", a.at, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0)
	write(header + name + "\x00")
	write(string(content))
}

// folder makes a folder and those above it.
func (a *initramfs) folder(name string) {
	a.t.Helper()
	name = strings.Trim(name, "/")
	if a.made[name] || name == "" {
		return
	}
	a.folder(path.Dir(name))
	a.made[name] = true
	a.entry(name, 0o040755, nil)
}

// put makes an executable file.
func (a *initramfs) put(name string, content []byte) {
	a.t.Helper()
	name = strings.Trim(name, "/")
	if a.made[name] {
		return
	}
	a.folder(path.Dir(name))
	a.made[name] = true
	a.entry(name, 0o100755, content)
}

// copy puts a file of the machine.
func (a *initramfs) copy(name, from string) {
	a.t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		a.t.Fatal(err)
	}
	a.put(name, content)
}

// copyTree puts a folder of the machine, of which regular files matter.
func (a *initramfs) copyTree(name, from string) {
	a.t.Helper()
	err := filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err == nil {
			a.copy(path.Join(name, filepath.ToSlash(rel)), file)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.t.Fatal(err)
	}
}

// program puts a program of the machine with the libraries that it is linked to.
func (a *initramfs) program(name string) {
	a.t.Helper()
	from, err := exec.LookPath(name)
	if err != nil {
		a.t.Fatal(err)
	}
	a.copy("/bin/"+name, from)
	for _, m := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(run(a.t, "", "ldd", from), -1) {
		a.copy(m[1], m[1])
	}
}

func (a *initramfs) close() {
	a.t.Helper()
	a.entry("TRAILER!!!", 0, nil)
	if err := errors.Join(a.out.Flush(), a.file.Close()); err != nil {
		a.t.Fatalf("write initramfs: %v", err)
	}
}
