package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWritableByOthers: a config that everybody may write is refused before a word of it is read, and only the flag allows it; a web
// config may be allowed by the config as well.
func TestWritableByOthers(t *testing.T) {
	const allowed = "allow_writable_by_others: true\n"
	var flag Overrides
	if err := flag.Set(allowFlag, "true"); err != nil {
		t.Fatal(err)
	}
	var flagOff Overrides
	if err := flagOff.Set(allowFlag, "false"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, path string
		mode       uint32
		text       string
		override   Overrides
		want       string // of the problem, with DIR for the folder; "" for none
	}{
		{name: "as usual", path: "etc/config.yaml", mode: 0o644},
		{name: "the config", path: "etc/config.yaml", mode: 0o646, text: "no such key: 1\n" + allowed,
			want: "DIR/etc/config.yaml: not trusted: everybody may write it (mode 0646, owner "},
		{name: "the config's folder", path: "etc", mode: 0o757, text: allowed,
			want: "DIR/etc: not trusted: everybody may write this folder (mode 0757, owner "},
		{name: "the config, allowed by flag", path: "etc/config.yaml", mode: 0o646, override: flag},
		{name: "the config, not allowed by flag", path: "etc/config.yaml", mode: 0o646, text: allowed, override: flagOff,
			want: "DIR/etc/config.yaml: not trusted: everybody may write it"},
		{name: "its folder, allowed by flag", path: "etc", mode: 0o757, override: flag},
		{name: "the web config", path: "web/web.yml", mode: 0o646,
			want: "DIR/web/web.yml: not trusted: everybody may write it (mode 0646, owner "},
		{name: "the web config's folder", path: "web", mode: 0o757,
			want: "DIR/web: not trusted: everybody may write this folder"},
		{name: "the web config, allowed by the config", path: "web/web.yml", mode: 0o646, text: allowed},
		{name: "the web config, allowed by flag", path: "web/web.yml", mode: 0o646, override: flag},
		{name: "the web config, not allowed by flag", path: "web/web.yml", mode: 0o646, text: allowed, override: flagOff,
			want: "DIR/web/web.yml: not trusted: everybody may write it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"etc/config.yaml": "interface: eth1\nmetrics: {web_config: ../web/web.yml}\n" + test.text, "web/web.yml": "swordfish",
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Chmod(filepath.Join(dir, test.path), test.mode); err != nil {
				t.Fatal(err)
			}
			c, err := Load(filepath.Join(dir, "etc/config.yaml"), test.override)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if c.AllowWritableByOthers != c.Source.WritableByOthers {
					t.Errorf("allowed: %v, for the inventory: %v", c.AllowWritableByOthers, c.Source.WritableByOthers)
				}
				return
			}
			if err == nil {
				t.Fatal("it is taken")
			}
			got := err.Error()
			if !strings.HasPrefix(got, strings.ReplaceAll(test.want, "DIR", dir)) || strings.Contains(got, "\n") || strings.Contains(got, "swordfish") {
				t.Errorf("error is\n%s\nwant one that begins with\n%s", got, test.want)
			}
			if allow := strings.HasPrefix(test.path, "etc"); allow != strings.Contains(got, "(not in the config itself") || !strings.Contains(got, "allow it with --"+allowFlag) {
				t.Errorf("remedy of\n%s", got)
			}
		})
	}
}
