// Package monitortest holds the alert rules (deploy/prometheus) and the dashboard (deploy/grafana) to what they are for. It has tests only.
//
// The fast ones look at the files: both ask for nothing but metrics and labels that the daemon has, and no metric of the daemon is left out.
// Those with build tag system (make test-system, as root) read the dashboard by Grafana's own schema, run the rules' unit tests by
// promtool, and bring up a cluster in network namespaces with a daemon on each bulk node and a Prometheus among them, which is asked every
// query of both and sees every alert fire.
package monitortest
