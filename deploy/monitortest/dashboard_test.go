package monitortest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDashboardCanBeImported: nothing in it belongs to the Grafana that it was made in, and what a person chooses has its effect.
func TestDashboardCanBeImported(t *testing.T) {
	d := loadDashboard(t)
	if d.UID != "bulkshaper" || d.Title == "" || d.ID != nil {
		t.Errorf("uid %q, title %q, id %v: links rest on the uid, and an id is of one Grafana", d.UID, d.Title, d.ID)
	}
	if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Name != "datasource" {
		t.Fatal("the first variable is not the data source, which all others ask")
	}
	ours := source{"prometheus", "${datasource}"}
	var names []string
	for _, v := range d.Templating.List[1:] {
		names = append(names, v.Name)
		var asked struct{ Query string }
		if err := json.Unmarshal(v.Query, &asked); err != nil || asked.Query != v.Definition {
			t.Errorf("variable %s: it asks %s and says %q: %v", v.Name, v.Query, v.Definition, err)
		}
		// "" would leave out what has no such label: a node of unknown cabinet, a Prometheus of one cluster.
		if v.Datasource != ours || v.Label == "" || v.Description == "" || !v.Multi || !v.IncludeAll || v.AllValue != ".*" {
			t.Errorf("variable %s: %+v", v.Name, v)
		}
		selector, label := v.values(t)
		if label != v.Name {
			t.Errorf("variable %s is of label %s", v.Name, label)
		}
		// A choice narrows those behind it.
		for _, word := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(selector, -1) {
			if i := slices.Index(names, word[1]); i < 0 || i == len(names)-1 {
				t.Errorf("variable %s asks for %s, which is not chosen before it", v.Name, word[0])
			}
		}
	}
	if want := []string{"cluster", "datacenter", "cabinet", "node", "class"}; !slices.Equal(names, want) {
		t.Errorf("the variables are %q, want %q", names, want)
	}
	for _, a := range d.Annotations.List {
		if a.BuiltIn == 0 && a.Datasource != ours {
			t.Errorf("annotation %s asks %+v", a.Name, a.Datasource)
		}
	}
	for _, q := range d.queries() {
		for _, word := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(q.expr, -1) {
			if !slices.Contains(append(names, "__rate_interval"), word[1]) {
				t.Errorf("%s: there is no variable %s", q.where, word[0])
			}
		}
		if !strings.Contains(q.expr, `cluster=~"$cluster"`) {
			t.Errorf("%s does not follow the choice of the cluster: %s", q.where, q.expr)
		}
		// Nodes that are down, and alerts, are of no cabinet.
		if !strings.Contains(q.expr, "up{") && !strings.Contains(q.expr, "ALERTS{") && !strings.Contains(q.expr, `cabinet=~"$cabinet", node=~"$node"}`) {
			t.Errorf("%s does not follow the choice of cabinet and node: %s", q.where, q.expr)
		}
	}
}

// TestDashboardPanels: each has a place of its own, a unit, and words that say what it shows.
func TestDashboardPanels(t *testing.T) {
	d := loadDashboard(t)
	ids, titles, taken := map[int]string{}, map[string]bool{}, map[[2]int]string{}
	var rows []string
	for _, p := range d.all() {
		if other, ok := ids[p.ID]; ok || p.ID <= 0 {
			t.Errorf("%s has id %d, as %s has", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		if titles[p.Title] || p.Title == "" {
			t.Errorf("two panels are called %q", p.Title)
		}
		titles[p.Title] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
			t.Errorf("%s does not lie on the grid: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s lies on %s at column %d, line %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if p.Datasource != (source{"prometheus", "${datasource}"}) || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s: data source %+v, unit %q, %d queries", p.Title, p.Datasource, p.FieldConfig.Defaults.Unit, len(p.Targets))
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" || target.Datasource != p.Datasource {
				t.Errorf("%s: query %q, asked of %+v", p.Title, target.RefID, target.Datasource)
			}
			refs[target.RefID] = true
			if wantInstant := p.Type != "timeseries"; target.Instant != wantInstant || (target.Format == "table") != (p.Type == "table") {
				t.Errorf("%s: query %s is instant: %t, format %q", p.Title, target.RefID, target.Instant, target.Format)
			}
			checkUnit(t, p, target.Expr)
			checkLegend(t, p, target.Expr, target.LegendFormat)
		}
		if p.FieldConfig.Defaults.Thresholds != nil && p.FieldConfig.Defaults.Thresholds.Steps[0].Value != nil {
			t.Errorf("%s: the first threshold has a value, so there is no colour below it", p.Title)
		}
	}
	if want := []string{"Now", "Clusters", "Cabinets", "Classes", "Node by node", "Daemon and inventory"}; !slices.Equal(rows, want) {
		t.Errorf("the rows are %q, want %q", rows, want)
	}
}

// checkUnit: bytes of a class are shown as the bits that people give as its rate, and parts of a whole in percent.
func checkUnit(t *testing.T, p panel, expr string) {
	t.Helper()
	unit := p.FieldConfig.Defaults.Unit
	part := strings.Contains(expr, " / ") && unit != "s"
	switch {
	case part != (unit == "percentunit"):
		t.Errorf("%s has unit %s: %s", p.Title, unit, expr)
	case !part && strings.Contains(expr, "_sent_bytes_total") && (unit != "bps" || !strings.Contains(expr, "8 * ")):
		t.Errorf("%s is of bytes and has unit %s: %s", p.Title, unit, expr)
	}
}

// checkLegend: a legend names labels that the query leaves, and all that tell its lines apart.
func checkLegend(t *testing.T, p panel, expr, legend string) {
	t.Helper()
	by := regexp.MustCompile(`^(?:8 \* |topk\(10, (?:8 \* )?|\()*(?:sum|max|min|avg|count) by \(([^)]*)\)`).FindStringSubmatch(expr)
	if by == nil || p.Type == "table" {
		return
	}
	for _, label := range strings.Split(by[1], ", ") {
		// A cabinet is told by its datacenter only where that is one of several panels' lines.
		if !strings.Contains(legend, "{{"+label+"}}") && label != "datacenter" {
			t.Errorf("%s: its lines differ in %s, the legend is %q", p.Title, label, legend)
		}
	}
	for _, word := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(strings.Split(by[1], ", "), word[1]) {
			t.Errorf("%s: the legend %q names a label that the query does not leave: %s", p.Title, legend, expr)
		}
	}
}
