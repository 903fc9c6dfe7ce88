//go:build system

package pagetest

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bulkshaper/systemd/debian"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"golang.org/x/sys/unix"
)

// browser is a Chromium with one page, and what that complained of.
type browser struct {
	ctx context.Context
	t   *testing.T

	mu       sync.Mutex
	said     []string // errors and warnings of the console, refusals of the policy among them
	requests []string
}

func chromium(t *testing.T) string {
	t.Helper()
	debian.Need(t, map[string]string{"chromium": "chromium"})
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	ctx, end = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(end)
	b := &browser{ctx: ctx, t: t}
	err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.said = append(b.said, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			b.said = append(b.said, e.Entry.Text+" "+e.Entry.URL)
		case *network.EventRequestWillBeSent:
			b.requests = append(b.requests, e.Request.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.do(command(log.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}))
	return b
}

// command is a command of the protocol whose answer says nothing.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// value evaluates an expression of the page.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// see opens the page in a window of that size and waits until it shows the classes.
func (b *browser) see(url string, width, height int64, scheme string) {
	b.t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	b.do(command(emulation.SetEmulatedMedia, media), chromedp.EmulateViewport(width, height), chromedp.Navigate(url),
		chromedp.WaitVisible("#classes tbody tr"), chromedp.WaitVisible("#events li"))
}

// is evaluates an expression of the page until it is true.
func (b *browser) is(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if value[bool](b, expression) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("not so: %s: %s\n%s", what, expression, value[string](b, "document.body.innerText"))
		}
	}
}

// keep writes a screenshot of the whole page where somebody wants to look at it.
func (b *browser) keep(name string) {
	b.t.Helper()
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if len(image) < 5000 {
		b.t.Errorf("the picture %s has %d bytes", name, len(image))
	}
	if folder := os.Getenv("PAGETEST_OUT"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// quiet checks that the browser had nothing to complain of, and asked nobody but the server.
func (b *browser) quiet(url string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		b.t.Errorf("the browser says:\n%s", strings.Join(b.said, "\n"))
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, url+"/") {
			b.t.Errorf("the page asked %s", r)
		}
	}
}

// fits: nothing sticks out to the side.
const fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"

func TestPage(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape shape
	}{
		{"few", shape{classes: 4, servers: 300, override: true}},
		{"many", shape{classes: 40, servers: 100_000, warnings: 5000, long: true, broken: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.shape)
			b := open(t)
			for _, window := range []struct {
				name          string
				width, height int64
			}{{"wide", 1280, 900}, {"phone", 390, 844}} {
				for _, scheme := range []string{"light", "dark"} {
					b.see(s.URL, window.width, window.height, scheme)
					b.is("every class has a row", "document.querySelectorAll('#classes tbody tr').length >= "+map[string]string{"few": "5", "many": "41"}[c.name])
					b.is("it says that all is well", "document.getElementById('state').textContent.startsWith('in sync')")
					b.is("it says which version answers", "document.getElementById('version').textContent === 'bulkshaper v1.2.3'")
					b.is("the graphs are drawn", "[...document.querySelectorAll('#classes canvas')].every(c => c.width > 100 && c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v))")
					b.is("nothing sticks out at "+window.name, fits)
					back := map[string]string{"light": "rgb(251, 251, 250)", "dark": "rgb(21, 23, 26)"}[scheme]
					b.is("the colours are those of the scheme", "getComputedStyle(document.body).backgroundColor === '"+back+"'")
					b.keep(c.name + "-" + window.name + "-" + scheme)
				}
			}
			b.quiet(s.URL)
		})
	}
}

// TestClassesFit: from 1000 pixels on, half of a large screen, the classes are seen without scrolling to the side.
func TestClassesFit(t *testing.T) {
	for name, shape := range map[string]shape{"few": {classes: 4, servers: 300, override: true}, "many": {classes: 40, servers: 100_000, long: true, override: true}} {
		s := serve(t, shape)
		b := open(t)
		for _, width := range []int64{1000, 1100, 1200, 1280, 1440} {
			b.see(s.URL, width, 900, "light")
			const table = "document.getElementById('classes').parentElement"
			// With counts as they are after weeks.
			const counts = "(document.querySelectorAll('#classes td[data-label=dropped], #classes td[data-label=borrowed]').forEach(c => c.textContent = '1,234,567,890'), "
			if more := value[float64](b, counts+table+".scrollWidth - "+table+".clientWidth)"); more > 0 {
				t.Errorf("%s at %d: %.0f pixels have to be scrolled to", name, width, more)
			}
			b.is("the graphs are there", "[...document.querySelectorAll('#classes canvas')].every(c => c.clientWidth >= 80)")
		}
		b.do(chromedp.EmulateViewport(1000, 900))
		b.keep("fit-" + name)
	}
}

func TestPageTells(t *testing.T) {
	s := serve(t, shape{classes: 4, servers: 300, override: true, broken: true})
	b := open(t)
	b.see(s.URL, 1280, 900, "light")
	for what, text := range map[string]string{
		"the override":      `Override: cross-cabinet is held to 50mbit until `,
		"why, as text":      `by alice: archive copy <b>"ticket 4711"</b>. Configured is 2gbit.`,
		"the refused files": "/etc/bulkshaper/roles.json:3:17: a comma is missing; write one",
		"the rules":         "servers with role hadoop_node → cross-cabinet",
		"the same cabinet":  "servers in this node's cabinet (b0) → same-cabinet",
		"what happened":     "override set: cross-cabinet at 50mbit until ",
		"the node":          "hadoop27",
	} {
		b.is(what, "document.body.textContent.includes("+quoted(text)+")")
	}
	// By keyboard alone: / goes to the search, Escape empties it, events open with Enter.
	b.do(chromedp.KeyEvent("/"))
	b.is("the search has the focus", "document.activeElement.id === 'asked'")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("hadoop14"))
	b.is("the answer", "document.getElementById('found').textContent.includes('10.0.0.14 gets same-cabinet (1:10)')")
	b.is("and why", "document.getElementById('found').textContent.includes('Rule same-cabinet matches')")
	b.keep("search")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.is("nothing found any more", "document.getElementById('found').children.length === 0")
	b.do(chromedp.KeyEvent("10.99.1.2"))
	b.is("an address that nobody owns", "document.getElementById('found').textContent.includes('No rule matches, so it gets the default class')")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("adoop1"))
	b.is("a part of names", "document.querySelectorAll('#matches tbody tr').length === 50 && document.getElementById('found').textContent.includes('these are the first 50')")
	b.do(chromedp.Focus("#events summary"), chromedp.KeyEvent(kb.Enter))
	b.is("an event opens", "document.querySelector('#events details')?.open === true")
	time.Sleep(5 * time.Second) // more than two rounds, which must not close it
	b.is("and stays open", "document.querySelector('#events details')?.open === true")
	b.quiet(s.URL)

	s.Close()
	b.is("a daemon that is gone is told", "document.getElementById('state').textContent.startsWith('no answer since')")
}

// TestPageTellsTroubles: what waits, who fights over what, and which overrides are not followed, as the status does.
func TestPageTellsTroubles(t *testing.T) {
	s := serve(t, shape{classes: 4, servers: 300, troubled: true})
	b := open(t)
	for _, window := range []struct {
		name          string
		width, height int64
	}{{"wide", 1280, 900}, {"phone", 390, 844}} {
		b.see(s.URL, window.width, window.height, "dark")
		for what, text := range map[string]string{
			"that it is not in sync":   "The kernel is not as wanted: somebody keeps changing the shaping, so the repair waits until noon",
			"over what":                "9 repairs since ",
			"which object":             "of cross-cabinet 1:20: rate is 1mbit, wanted 2gbit (8 times)",
			"what was wrong the last":  "the root qdisc: removed (that is the last of 3 times)",
			"who, and how to end it":   "changed by process 4711 (tc). To end it: set it to false, or stop this daemon",
			"what waits":               "Not confirmed: an apply on eth1 waits for confirmation until noon",
			"overrides in a bad state": "The overrides cannot be followed: read overrides: /run/bulkshaper/overrides.state: its mode 0666",
		} {
			b.is(what, "document.getElementById('notices').textContent.includes("+quoted(text)+")")
		}
		b.is("nothing sticks out at "+window.name, fits)
		b.keep("troubled-" + window.name)
	}
	b.quiet(s.URL)
}

// TestPageCosts: what a page that is open asks of the daemon takes less than 1 % of a processor, with everything at its largest.
func TestPageCosts(t *testing.T) {
	s := serve(t, shape{classes: 40, servers: 100_000, warnings: 5000, long: true, override: true})
	processor := func(rounds int, path string, headers ...string) time.Duration {
		t.Helper()
		before := used(t)
		for range rounds {
			r := httptest.NewRequest("GET", path, nil)
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			s.Config.Handler.ServeHTTP(w, r)
			if w.Code != 200 && w.Code != 304 {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		return (used(t) - before) / time.Duration(rounds)
	}
	w := httptest.NewRecorder()
	s.Config.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/history", nil))
	round := processor(200, "/api/v1/status?warnings=50") + processor(200, "/api/v1/history", "If-None-Match", w.Header().Get("ETag"))
	const every = 2 * time.Second // statusEvery of page.js
	t.Logf("a round takes %s of a processor, %.3f %%; a search among 100,000 destinations %s", round, 100*round.Seconds()/every.Seconds(), processor(20, "/api/v1/explain?dest=hadoop1"))
	if round > every/100 {
		t.Errorf("a round takes %s of a processor, over 1 %% of %s", round, every)
	}
}

// used is the processor time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func quoted(text string) string { return "`" + text + "`" }
