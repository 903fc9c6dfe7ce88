//go:build system

package monitortest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// TestDashboardIsGrafanas reads the dashboard by the types that Grafana generates from its own schema, strictly: with every key known,
// of its type and in its range, down to the options of each kind of panel.
func TestDashboardIsGrafanas(t *testing.T) {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(table.VariantConfig())
	runtime.RegisterPanelcfgVariant(bargauge.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	strict := func(text []byte) error {
		var d grafana.Dashboard
		var problems cog.BuildErrors // an empty list is an error that is not nil
		if err := d.UnmarshalJSONStrict(text); err != nil && (!errors.As(err, &problems) || len(problems) > 0) {
			return fmt.Errorf("read: %w", err)
		}
		return d.Validate()
	}
	text := read(t, dashboardFile)
	if err := strict(text); err != nil {
		t.Error(err)
	}
	// The schema does see what is wrong.
	for _, wrong := range [][2]string{
		{`"gridPos"`, `"gridPosition"`}, {`"stacking"`, `"stapling"`}, {`"refresh": 2`, `"refresh": "always"`},
		{`"legendFormat"`, `"legendFormatting"`}, {`"reduceOptions"`, `"reducedOptions"`},
	} {
		if changed := strings.Replace(string(text), wrong[0], wrong[1], 1); changed == string(text) || strict([]byte(changed)) == nil {
			t.Errorf("%s for %s is not found, or is no error", wrong[1], wrong[0])
		}
	}
}
