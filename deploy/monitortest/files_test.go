package monitortest

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/goccy/go-yaml"
)

const (
	rulesFile     = "../prometheus/bulkshaper.rules.yml"
	unitFile      = "../prometheus/bulkshaper.test.yml"
	configFile    = "../prometheus/prometheus.yml"
	tableFile     = "../prometheus/README.md"
	dashboardFile = "../grafana/bulkshaper.json"
	metricsFile   = "../../metrics/testdata/metrics.golden"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// rule is an alert.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(read(t, rulesFile), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// query is a question of the dashboard: what a panel or an annotation shows, or what a variable may be.
type query struct {
	where string
	expr  string
}

// panel is as much of one as the tests look at; the rest is held to Grafana's schema.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  source
	GridPos     struct{ X, Y, W, H int }
	Collapsed   bool
	Panels      []panel
	Targets     []struct {
		RefID         string `json:"refId"`
		Datasource    source
		Expr          string
		LegendFormat  string
		Instant       bool
		Format        string
		RangeExplicit *bool `json:"range"`
	}
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds *struct{ Steps []struct{ Value *float64 } }
		}
	}
}

type source struct{ Type, UID string }

type variable struct {
	Name, Type, Label, Description string
	Datasource                     source
	Query                          json.RawMessage
	Definition                     string
	IncludeAll, Multi              bool
	AllValue                       string
}

type dashboard struct {
	UID, Title  string
	ID          *int
	Panels      []panel
	Templating  struct{ List []variable }
	Annotations struct {
		List []struct {
			Name       string
			BuiltIn    int
			Datasource source
			Expr       string
		}
	}
}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, dashboardFile), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// all are the panels, those in collapsed rows and the rows among them.
func (d dashboard) all() (all []panel) {
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// queries are all that the dashboard asks of Prometheus in its language.
func (d dashboard) queries() (all []query) {
	for _, p := range d.all() {
		for _, target := range p.Targets {
			all = append(all, query{p.Title + " " + target.RefID, target.Expr})
		}
	}
	for _, a := range d.Annotations.List {
		if a.BuiltIn == 0 {
			all = append(all, query{"annotation " + a.Name, a.Expr})
		}
	}
	return all
}

// values takes apart what a variable asks: label_values(SELECTOR, LABEL), which Grafana does and Prometheus does not know.
func (v variable) values(t *testing.T) (selector, label string) {
	t.Helper()
	parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition)
	if parts == nil {
		t.Fatalf("variable %s asks %q", v.Name, v.Definition)
	}
	return parts[1], parts[2]
}
