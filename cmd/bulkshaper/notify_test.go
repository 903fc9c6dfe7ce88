package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAManagerThatDoesNotRead gives the daemon a service manager that reads nothing until much was told. Telling takes no time, and then
// the manager learns all that still matters, in its order.
//
// PROMISES.md: The service manager does not read what it is told
func TestAManagerThatDoesNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify.sock")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	s := newSystemd()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.deliver(ctx); close(ended) }()
	s.Ready()
	const many = 5000 // far over net.unix.max_dgram_qlen
	for i := range many {
		s.Status(fmt.Sprint("line ", i))
	}
	s.Reloading()
	s.Ready()
	s.Status("the last")

	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	var got []string
	buffer := make([]byte, 4096)
	for len(got) == 0 || got[len(got)-1] != "STATUS=the last" {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, string(buffer[:n]))
	}
	all := strings.Join(got, "|")
	if i, j := strings.LastIndex(all, "RELOADING=1"), strings.LastIndex(all, "READY=1"); i < 0 || j < i {
		t.Errorf("reloading and ready came as %.300q", all)
	}
	for i := range many { // the socket full again: the end does not wait for it
		s.Status(fmt.Sprint("again ", i))
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

// TestRepairsGoOnBesideAManagerThatDoesNotRead: the loop is not kept from its work.
//
// PROMISES.md: The service manager does not read what it is told
func TestRepairsGoOnBesideAManagerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	d := startIncident(t) // its notify socket is read up to READY=1 and no further
	want := shownFilters(d.filters())
	file := d.serverFile("hadoop14")
	here, there := strings.Replace(read(t, file), `"b12"`, `"b13"`, 1), read(t, file)
	for i := range 40 { // a broken file and a good one are two lines of status
		text, class := here, "1:10"
		if i%2 == 1 {
			text, class = there, "1:20"
		}
		edit(t, file, "{")
		eventually(t, "the reload fails", func() bool { return d.status().LastReload.Result == "failure" })
		edit(t, file, text)
		eventually(t, "the edit is followed", func() bool { return shownFilters(d.filters())["0af11c0e"] == class })
	}
	if got := shownFilters(d.filters()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("filters %v, want %v", got, want)
	}
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}
