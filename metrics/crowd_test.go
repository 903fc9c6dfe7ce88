package metrics

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// crowd is how many clients come at once: about twice as many as are let in.
const crowd = 1000

// TestCrowd has 1,000 scrapes at once, each of which gets its whole answer, and health checks are answered meanwhile.
func TestCrowd(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(incident()))
	scrapes := newScrapeHandler(reg, zap.NewNop())
	scrapes.wait = time.Minute // the race detector on a busy machine is no matter here
	mux := http.NewServeMux()
	mux.Handle("/metrics", scrapes)
	mux.Handle("/-/healthy", stateHandler("healthy", nil))
	address := serve(t, ServeOptions{Handler: mux, writeTimeout: time.Minute, staleAfter: time.Minute})

	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			code, body, err := get(t, nil, "http://"+address+"/metrics")
			for again := 0; again < 5 && err != nil; again++ { // on a busy machine a question may take longer than readHeaderTimeout
				code, body, err = get(t, nil, "http://"+address+"/metrics")
			}
			if err != nil || code != http.StatusOK || !strings.HasSuffix(body, "bulkshaper_scrape_errors_total 0\n") {
				t.Errorf("scrape: %d %v, %d bytes", code, err, len(body))
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for checks := 0; ; checks++ {
		if code, _, err := get(t, nil, "http://"+address+"/-/healthy"); err != nil || code != http.StatusOK {
			t.Errorf("health: %d %v", code, err)
		}
		select {
		case <-done:
			if checks == 0 {
				t.Error("the crowd was gone before anybody asked")
			}
			return
		default:
		}
	}
}

// TestCrowdThatSaysNothing has clients that connect and say nothing, that begin a request and stop, and that never read a large answer:
// they cost no more than the limit, and a health check is answered as if they were not there, but for the time that it takes to see
// that nothing moves.
//
// PROMISES.md: A crowd connects and says nothing, or never reads
func TestCrowdThatSaysNothing(t *testing.T) {
	huge := make([]byte, 8<<20) // more than the socket buffers hold; one for all
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(huge) })
	mux.Handle("/-/healthy", stateHandler("healthy", nil))
	address := serve(t, ServeOptions{Handler: mux})
	goroutines, heap := runtime.NumGoroutine(), heapInUse()

	clients := make([]net.Conn, crowd)
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i := range clients {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = c
		switch i % 3 {
		case 0:
			if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		case 1:
			fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		}
	}
	for range 3 {
		start := time.Now()
		if code, _, err := get(t, nil, "http://"+address+"/-/healthy"); err != nil || code != http.StatusOK {
			t.Errorf("health: %d %v", code, err)
		}
		// Without room made for it the answer waits for the time-outs of so many before it that some are of those who never read.
		if took := time.Since(start); took > writeTimeout*2/3 {
			t.Errorf("health took %v", took)
		}
	}
	// A connection is a goroutine or two.
	if n := runtime.NumGoroutine() - goroutines; n > 2*maxConnections+50 {
		t.Errorf("%d goroutines more than before", n)
	}
	if grown := heapInUse() - heap; grown > 64<<20 {
		t.Errorf("%d MiB of memory more than before", grown>>20)
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestBoundedListener: the connection that has been still for the longest time makes room, one whose answer is being made does not, and
// an end of the listener ends the wait.
func TestBoundedListener(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newBoundedListener(raw, 2)
	var clients []net.Conn
	connect := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
		return c
	}
	accept := func() *boundedConn {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*boundedConn)
	}
	closed := func(c net.Conn) bool { // as the client sees it
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		var timeout net.Error
		return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
	}
	ago := func(c *boundedConn, d time.Duration) { c.moved.Store(time.Now().Add(-d).UnixNano()) }

	connect()
	connect()
	first, second := accept(), accept()
	ago(first, 2*staleAfter)
	ago(second, 3*staleAfter)
	connect()
	third := accept()
	if closed(clients[0]) || !closed(clients[1]) || closed(clients[2]) {
		t.Errorf("closed: %v %v %v, want the one that was still for longest", closed(clients[0]), closed(clients[1]), closed(clients[2]))
	}

	// What moves is not still.
	ago(third, 2*staleAfter)
	ago(first, 3*staleAfter)
	if _, err := clients[0].Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	connect()
	fourth := accept()
	if closed(clients[0]) || !closed(clients[2]) {
		t.Errorf("closed: %v %v, want the one on which nothing moved", closed(clients[0]), closed(clients[2]))
	}

	// Both are busy: the next one waits until one of them is done.
	for _, c := range []*boundedConn{first, fourth} {
		noteState(c, http.StateActive)
		ago(c, 2*staleAfter)
	}
	connect()
	accepted := make(chan *boundedConn, 1)
	go func() {
		c, _ := l.Accept()
		b, _ := c.(*boundedConn)
		accepted <- b
	}()
	noteState(first, http.StateIdle)
	if wait := first.staleIn(time.Now()); wait > 0 {
		t.Errorf("idle it counts as still in %v", wait)
	}
	noteState(first, http.StateActive)
	if wait := first.staleIn(time.Now()); wait <= 0 {
		t.Error("busy it counts as still")
	}
	fourth.Close()
	if got := <-accepted; got == nil || closed(clients[0]) {
		t.Errorf("after one was done: %v, and the other busy one is closed: %v", got, closed(clients[0]))
	} else {
		noteState(got, http.StateActive)
	}

	connect()
	ended := make(chan error, 1)
	go func() { _, err := l.Accept(); ended <- err }()
	_ = l.Close()
	if err := <-ended; err == nil {
		t.Error("a closed listener accepts")
	}
}
