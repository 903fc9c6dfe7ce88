//go:build system

package qemutest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// series are the kernels that are booted: Debian's oldest and newest for which its packages are in one release.
var series = []string{"6.1", "6.12"}

// suite is a package whose tests run in the virtual machine; skip are those of its tests that make no sense there.
type suite struct{ pkg, skip string }

// suites are all of them, or with the flag -suites those whose name has its text.
func suites() []suite {
	all := []suite{
		{guestPackage, "^$"},
		{"shaper/kernel", "^$"},
		{"shaper/fakekernel", "^$"},
		// Emulated processors reach no rates, and the demo is about rates, nor do they tell what something costs; pods are built by go, which is not there; the soak is long;
		// and the README's, and what a full folder does, are the same on every kernel.
		{"cmd/bulkshaper", "^(TestRatesAreReached|TestDemo|TestPodNetworks|TestSoak|TestWatchCosts|TestConfirmRunFolderFull|TestReadme.*)$"},
	}
	only := flag.Lookup(suitesFlag).Value.String()
	return slices.DeleteFunc(all, func(s suite) bool { return !strings.Contains(s.pkg, only) })
}

const suitesFlag, testsFlag = "suites", "tests"

func TestMain(m *testing.M) {
	flag.String(suitesFlag, "", "run only the packages whose path has this in it")
	flag.String(testsFlag, "", "run only the tests in the virtual machine that this regular expression matches")
	os.Exit(m.Run())
}

const (
	modulePath   = "bulkshaper"
	guestPackage = "shaper/kernel/qemutest/guest" // its test binary is the machine's init, too
	suiteTimeout = 20 * time.Minute
	bootTimeout  = 40 * time.Minute
)

// emulatorFault is how qemu's emulation of two processors at once ended a run once, at a cmpxchg16b in kmalloc while a namespace was
// made, on a busy machine. The tests are told of it and get another boot, twice at most.
const emulatorFault = "Oops: double fault"

// TestKernels runs the tests on other kernels.
func TestKernels(t *testing.T) {
	need(t, map[string]string{
		"qemu-system-x86_64": "qemu-system-x86", "tc": "iproute2", "setpriv": "util-linux", "xz": "xz-utils", "zstd": "zstd", "ldd": "libc-bin"})
	if len(suites()) == 0 {
		t.Fatal("no package is called so")
	}
	binaries := buildBinaries(t)
	// A run of both kernels writes much, and who looks at one that failed begins at the end.
	var failed strings.Builder
	defer func() {
		if failed.Len() > 0 {
			t.Errorf("what failed:\n%s", failed.String())
		}
	}()
	for _, s := range series {
		t.Run(s, func(t *testing.T) {
			k := findKernel(t, s)
			image := filepath.Join(t.TempDir(), "initramfs")
			writeInitramfs(t, image, k, binaries)
			results, console := boot(t, k, image)
			for again := 0; again < 2 && strings.Contains(console, emulatorFault); again++ {
				t.Logf("booted again: %q in the emulated processor", emulatorFault)
				results, console = boot(t, k, image)
			}
			failed.WriteString(judge(t, k, results, console))
		})
	}
}

// buildBinaries builds the program and the test binaries, static, into a folder.
func buildBinaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "", "go", "build", "-trimpath", "-o", filepath.Join(dir, "bulkshaper"), modulePath+"/cmd/bulkshaper")
	packages := []string{guestPackage}
	for _, s := range suites() {
		packages = append(packages, s.pkg)
	}
	for _, pkg := range packages {
		run(t, "", "go", "test", "-tags", "system", "-c", "-o", filepath.Join(dir, testBinary(pkg)), modulePath+"/"+pkg)
	}
	return dir
}

func testBinary(pkg string) string { return strings.ReplaceAll(pkg, "/", "_") + ".test" }

func writeInitramfs(t *testing.T, image string, k debianKernel, binaries string) {
	t.Helper()
	const repository = "../../.."
	a := newInitramfs(t, image)
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/modules"} {
		a.folder(dir)
	}
	for i, m := range readModules(t, k) {
		a.put(fmt.Sprintf("/modules/%03d-%s", i, m.name), m.content)
	}
	for _, name := range []string{"ip", "tc", "setpriv", "sh", "sleep"} {
		a.program(name)
	}
	a.copy("/bin/bulkshaper", filepath.Join(binaries, "bulkshaper"))
	a.copyTree("/src/testdata", filepath.Join(repository, "testdata"))
	type guestSuite struct {
		Name, Binary, Dir string
		Args              []string
	}
	var list []guestSuite
	for _, s := range suites() {
		binary := "/tests/" + testBinary(s.pkg)
		a.copy(binary, filepath.Join(binaries, testBinary(s.pkg)))
		a.folder("/src/" + s.pkg)
		a.copyTree("/src/"+s.pkg+"/testdata", filepath.Join(repository, s.pkg, "testdata"))
		list = append(list, guestSuite{s.pkg, binary, "/src/" + s.pkg, []string{"-test.v", "-test.run=" + flag.Lookup(testsFlag).Value.String(), "-test.skip=" + s.skip, "-test.timeout=" + suiteTimeout.String()}})
	}
	a.copy("/init", filepath.Join(binaries, testBinary(guestPackage)))
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	a.put("/suites.json", text)
	a.close()
}

// boot runs the virtual machine until it powers itself off, and returns what came out of its two serial lines.
func boot(t *testing.T, k debianKernel, image string) (results, console string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	resultsFile := filepath.Join(t.TempDir(), "results")
	// -no-reboot: a panic ends it. loglevel=5: warnings are seen.
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-no-reboot",
		"-nodefaults", "-display", "none", "-nic", "none", "-serial", "stdio", "-serial", "file:"+resultsFile,
		"-kernel", k.image, "-initrd", image, "-append", "console=ttyS0 loglevel=5 panic=-1 rdinit=/init")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	err := cmd.Run()
	t.Logf("%s ran for %s", k.release, time.Since(begun).Round(time.Second))
	text, readErr := os.ReadFile(resultsFile)
	if err != nil || readErr != nil {
		t.Logf("the tests and the kernel said\n%s\n%s", end(string(text), most), end(out.String(), most))
		t.Fatalf("run %s in qemu: %v, %v", k.release, err, readErr)
	}
	return strings.ReplaceAll(string(text), "\r", ""), out.String()
}

// judge fails for every suite that failed or did not run, and for a kernel that found fault with itself. It returns what failed for
// the end of the output, where it is seen first.
func judge(t *testing.T, k debianKernel, results, console string) string {
	t.Helper()
	if !strings.Contains(results, "== kernel "+k.release+",") {
		t.Logf("the tests and the kernel said\n%s\n%s", end(results, most), end(console, most))
		t.Fatalf("the kernel %s did not come up", k.release)
	}
	var failed strings.Builder
	fail := func(t *testing.T, what, details string) {
		t.Helper()
		fmt.Fprintf(&failed, "== %s: %s\n%s", t.Name(), what, details)
		t.Errorf("%s\n%s", what, details)
	}
	for _, s := range suites() {
		t.Run(s.pkg, func(t *testing.T) {
			_, rest, begun := strings.Cut(results, "== suite "+s.pkg+"\n")
			output, verdict, ended := strings.Cut(rest, "\n== suite "+s.pkg+" ended after ")
			verdict, _, _ = strings.Cut(verdict, "\n")
			passed := len(regexp.MustCompile(`(?m)^--- PASS: `).FindAllString(output, -1))
			found := failures(output)
			switch {
			case !begun || !ended:
				t.Logf("the kernel said\n%s", end(console, most))
				fail(t, "it did not run to its end", report(found))
			case !strings.HasSuffix(verdict, ": passed") || len(found) > 0 || passed == 0:
				if len(found) == 0 {
					t.Log(end(output, most))
				}
				fail(t, fmt.Sprintf("%s, %d passed", verdict, passed), report(found))
			default:
				t.Logf("%d tests: %s", passed, verdict)
			}
			for _, m := range regexp.MustCompile(`(?m)^ +\S+_test\.go:\d+: finding: .*`).FindAllString(output, -1) {
				t.Log(strings.TrimSpace(m))
			}
		})
	}
	if !strings.Contains(results, "== all suites ended") {
		fail(t, "the closing line is missing", "")
	}
	if found := faults(console); len(found) > 0 {
		t.Logf("the kernel said\n%s", end(console, most))
		fail(t, "the kernel finds fault with itself", strings.Join(found, "\n")+"\n")
	}
	return failed.String()
}

// most is how much of a long output is shown where nothing better is known.
const most = 20_000

// faults are the lines in which a kernel finds fault with itself.
//
// Not among them: with CONFIG_FORTIFY_SOURCE, as Debian has it, 6.1 and 6.12 take the copy of a node that a change in place makes
// (u32_init_knode) for one over the end of struct tc_u32_sel, since the keys lie behind it. They say so once; the copy is right.
func faults(console string) (found []string) {
	known := regexp.MustCompile(`memcpy: detected field-spanning write .* "&new->sel" at net/sched/cls_u32\.c:`)
	previous := ""
	for line := range strings.Lines(console) {
		line = strings.TrimSpace(line)
		if regexp.MustCompile(`WARNING:|BUG:|Oops|Kernel panic|refcount_t`).MatchString(line) && !known.MatchString(previous) {
			found = append(found, line)
		}
		previous = line
	}
	return found
}

func TestFaults(t *testing.T) {
	const field = "[ 10.0] memcpy: detected field-spanning write (size 32) of single field \"&new->sel\" at net/sched/cls_u32.c:870 (size 16)\r\n"
	const warning = "[ 10.1] WARNING: CPU: 1 PID: 124 at net/sched/cls_u32.c:870 u32_change+0xa8b/0xeb2 [cls_u32]\r\n"
	for console, want := range map[string]int{"": 0, "booted\n": 0, field + warning: 0, warning: 1, field + warning + warning: 1,
		"[ 1.0] BUG: kernel NULL pointer dereference\n[ 1.1] Oops: 0002\n": 2, "Kernel panic - not syncing\n": 1} {
		if got := faults(console); len(got) != want {
			t.Errorf("in %q: %q, want %d", console, got, want)
		}
	}
}
