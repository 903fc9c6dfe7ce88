package inventory

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what is printed into the goldens")

// archiveFiles takes the inventory out of an archive: roles.json and the server files. An archive without roles.json has one
// that declares nothing but the role hadoop_node.
func archiveFiles(archive *txtar.Archive) (roles File, servers []File, want string) {
	roles = File{Path: "roles.json", Data: []byte(`{"servers": [], "roles": ["hadoop_node"], "mapping": {}}`)}
	for _, f := range archive.Files {
		switch f.Name {
		case "roles.json":
			roles.Data = f.Data
		case "want":
			want = string(f.Data)
		default:
			servers = append(servers, File{Path: f.Name, Data: f.Data, Datacenter: DatacenterOf(f.Name)})
		}
	}
	return roles, servers, want
}

// eachArchive runs got on every archive of a folder and compares with its file "want".
func eachArchive(t *testing.T, folder string, got func(t *testing.T, roles File, servers []File) string) {
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archives in %s: %v", folder, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			roles, servers, want := archiveFiles(archive)
			text := got(t, roles, servers) + "\n"
			if *update && text != want {
				files := archive.Files[:0]
				for _, f := range archive.Files {
					if f.Name != "want" {
						files = append(files, f)
					}
				}
				archive.Files = append(files, txtar.File{Name: "want", Data: []byte(text)})
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, text); diff != "" {
				t.Errorf("problems differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInvalid has an archive for each mistake, with its exact message.
func TestInvalid(t *testing.T) {
	eachArchive(t, "invalid", func(t *testing.T, roles File, servers []File) string {
		inv, err := Parse(roles, servers, Fields{})
		var problems Problems
		if !errors.As(err, &problems) || len(problems) == 0 || inv != nil {
			t.Fatalf("inventory %v and error %v, want problems and no inventory", inv, err)
		}
		for _, p := range problems {
			if p.Remedy == "" {
				t.Errorf("problem %q has no remedy", p)
			}
		}
		return problems.Error()
	})
}

// TestWarnings has an archive for each thing that is strange and no mistake.
func TestWarnings(t *testing.T) {
	eachArchive(t, "warnings", func(t *testing.T, roles File, servers []File) string {
		inv, err := Parse(roles, servers, Fields{})
		if err != nil {
			t.Fatal(err)
		}
		return Problems(inv.Warnings).Error()
	})
}
