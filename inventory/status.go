package inventory

import (
	"fmt"
	"strings"
)

// goneWords are the statuses of a server that is no longer there.
func goneWords() []string { return []string{"decommissioned", "offline", "retired"} }

// liveWords are the statuses that inventories have for one that is, or soon will be. Any other counts as live as well, with a warning:
// it may be meant, or misspelled, as one that is gone.
func liveWords() []string {
	return []string{"", "active", "available", "commissioned", "deployed", "enabled", "healthy", "in production", "in service", "in use", "in-service", "in_service",
		"in_use", "installed", "live", "maintenance", "ok", "online", "operational", "planned", "prod", "production", "provisioned", "provisioning",
		"ready", "running", "spare", "staged", "staging", "up"}
}

// oddStatuses warns once of each status that is not known, with the number of servers, since a site may have a word of its own.
func oddStatuses(live []*record) (warnings Problems) {
	type word struct {
		first   *record
		servers int
	}
	words := make(map[string]*word)
	var order []string
	for _, r := range live {
		switch w := words[r.status]; {
		case r.status == "":
		case w == nil:
			words[r.status] = &word{r, 1}
			order = append(order, r.status)
		default:
			w.servers++
		}
	}
	for _, status := range order {
		w := words[status]
		remedy := "if that means gone, write " + strings.Join(goneWords(), ", ")
		if near := nearest(status, goneWords()); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		of, verb := "server "+w.first.server.Name, "counts"
		if w.servers > 1 {
			of = fmt.Sprintf("%d servers, of which the first is %s,", w.servers, w.first.server.Name)
			verb = "count"
		}
		warnings = append(warnings, Problem{File: w.first.server.File, Message: fmt.Sprintf("status %q is not known: %s %s as live", status, of, verb), Remedy: remedy})
	}
	return warnings
}
