//go:build system

package qemutest

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// moduleNames are what the tests use, those that they depend on are found.
var moduleNames = []string{
	"veth", "ifb", "dummy", "bonding", "8021q", "bridge", "macvlan", "vxlan", "ipip", "tun",
	"sch_htb", "sch_tbf", "sch_sfq", "sch_fq", "sch_cake", "sch_netem", "sch_ingress", "sch_mqprio", "sch_prio",
	"cls_u32", "cls_matchall", "cls_basic", "cls_bpf", "cls_flower", "cls_fw", "em_u32",
	"act_gact", "act_mirred", "act_police", "act_skbedit", "act_vlan",
}

// module is a kernel module's content and name.
type module struct {
	name    string
	content []byte
}

// readModules gives the modules and what they depend on, each behind those it needs.
func readModules(t *testing.T, k debianKernel) []module {
	t.Helper()
	paths := map[string]string{}
	err := filepath.WalkDir(k.modules, func(path string, entry fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok && err == nil {
			paths[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var order []module
	seen := map[string]bool{}
	var visit func(name, needer string)
	visit = func(name, needer string) {
		if seen[name] {
			return
		}
		seen[name] = true
		path, ok := paths[name]
		if !ok {
			t.Fatalf("kernel %s has no module %s, which %s need", k.release, name, needer)
		}
		content := readModule(t, path)
		depends, err := dependencies(content)
		if err != nil {
			t.Fatalf("read module %s: %v", path, err)
		}
		for _, d := range depends {
			visit(d, name)
		}
		order = append(order, module{name, content})
	}
	for _, name := range moduleNames {
		visit(name, "the tests")
	}
	return order
}

func readModule(t *testing.T, path string) []byte {
	t.Helper()
	switch filepath.Ext(path) {
	case ".xz":
		return []byte(run(t, "", "xz", "-dc", path))
	case ".zst":
		return []byte(run(t, "", "zstd", "-dcq", path))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// dependencies reads the line "depends=" of a module's section .modinfo.
func dependencies(content []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(info), "\x00") {
		if names, ok := strings.CutPrefix(line, "depends="); ok && names != "" {
			return strings.Split(strings.ReplaceAll(names, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
