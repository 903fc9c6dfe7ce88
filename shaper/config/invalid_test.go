package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bulkshaper/inventory"
)

// TestInvalid reads a file a mistake and compares the exact message with the golden beside it.
func TestInvalid(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid-*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yml"), func(t *testing.T) {
			_, err := Load(file, Overrides{})
			var ps inventory.Problems
			if !errors.As(err, &ps) || len(ps) == 0 {
				t.Fatalf("the error is %T %v, not problems", err, err)
			}
			got := strings.ReplaceAll(err.Error(), "testdata/", "") + "\n"
			golden := strings.TrimSuffix(file, ".yml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}
