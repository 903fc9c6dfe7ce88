package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestDumpsCollector(t *testing.T) {
	c := NewDumpsCollector(func(object string) uint64 { return uint64(len(object)) })
	want := `# HELP bulkshaper_kernel_dumps_total How often the kernel was asked for its list of such objects. A scrape asks for no filters.
# TYPE bulkshaper_kernel_dumps_total counter
bulkshaper_kernel_dumps_total{object="class"} 5
bulkshaper_kernel_dumps_total{object="filter"} 6
bulkshaper_kernel_dumps_total{object="qdisc"} 5
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
