package inventory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkLoad reads 10,000 files: all of them, none, and one that changed.
func BenchmarkLoad(b *testing.B) {
	root := b.TempDir()
	var servers, mapped []string
	for i := range 10000 {
		name := fmt.Sprintf("hadoop%05d", i)
		dir := filepath.Join(root, fmt.Sprintf("dc%d", i%4), "jsons")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		text := fmt.Sprintf(`{"name": %q, "names": ["%s.example.net"], "ip_address": "10.%d.%d.%d", "cabinet": "b%d", "provisioning": {"image": "x", "disks": [1, 2, 3]}}`,
			name, name, i>>16, i>>8&255, i&255, i/40)
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		servers, mapped = append(servers, `"`+name+`"`), append(mapped, `"`+name+`"`)
	}
	roles := fmt.Sprintf(`{"servers": [%s], "roles": ["hadoop_node"], "mapping": {"hadoop_node": [%s]}}`, strings.Join(servers, ","), strings.Join(mapped, ","))
	if err := os.WriteFile(filepath.Join(root, "roles.json"), []byte(roles), 0o644); err != nil {
		b.Fatal(err)
	}
	source := Source{Roles: filepath.Join(root, "roles.json"), Servers: []string{filepath.Join(root, "*", "jsons")}}
	load := func(l *Loader) time.Duration {
		start := time.Now()
		if _, err := l.Load(context.Background()); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	aged := func() *Loader {
		l := NewLoader(source)
		l.now = func() time.Time { return time.Now().Add(time.Hour) }
		return l
	}
	var cold, warm time.Duration
	for b.Loop() {
		l := aged()
		cold += load(l)
		warm += load(l)
	}
	b.ReportMetric(float64(cold.Milliseconds())/float64(b.N), "cold-ms")
	b.ReportMetric(float64(warm.Milliseconds())/float64(b.N), "warm-ms")
	b.ReportMetric(float64(warm)/float64(cold), "warm/cold")
}
