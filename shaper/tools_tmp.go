//go:build neverbuilt

package shaper

import (
	_ "github.com/coreos/go-systemd/v22/daemon"
	_ "github.com/florianl/go-tc"
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/gaissmai/bart"
	_ "github.com/go-json-experiment/json"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/mdlayher/netlink"
	_ "github.com/mdlayher/ethtool"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/collectors"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "github.com/prometheus/exporter-toolkit/web"
	_ "github.com/spf13/cobra"
	_ "github.com/tidwall/gjson"
	_ "github.com/vishvananda/netlink"
	_ "github.com/vishvananda/netns"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "go4.org/netipx"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "pgregory.net/rapid"
	_ "github.com/rogpeppe/go-internal/testscript"
)
