package override

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"bulkshaper/shaper/config"
	"bulkshaper/shaper/runfile"
	"bulkshaper/shaper/tc"
)

const mbit = tc.BitRate(1_000_000)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func rate(t *testing.T, text string) config.Rate {
	t.Helper()
	r, err := config.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// give is an override of eth1 from noon on.
func give(t *testing.T, class, rateText, ceilText string, d time.Duration) Override {
	t.Helper()
	var ceil config.Rate
	if ceilText != "" {
		ceil = rate(t, ceilText)
	}
	return New("eth1", class, rate(t, rateText), ceil, noon, d)
}

// tree has two classes below bulk, and default beside it.
func tree() Rates {
	return Rates{Interface: "eth1", Link: 1000 * mbit, Classes: []Limits{
		{"bulk", "", 400 * mbit, 800 * mbit}, {"same", "bulk", 200 * mbit, 800 * mbit}, {"cross", "bulk", 100 * mbit, 100 * mbit}, {"default", "", 100 * mbit, 100 * mbit}}}
}

func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		class, rate, ceil string
		refused           string
		want              Limits
	}{
		"down":                     {"cross", "50mbit", "", "", Limits{"cross", "bulk", 50 * mbit, 50 * mbit}},
		"down also what borrows":   {"same", "50mbit", "", "", Limits{"same", "bulk", 50 * mbit, 50 * mbit}},
		"percent":                  {"cross", "5%", "", "", Limits{"cross", "bulk", 50 * mbit, 50 * mbit}},
		"with ceil":                {"default", "50mbit", "200mbit", "", Limits{"default", "", 50 * mbit, 200 * mbit}},
		"up":                       {"same", "300mbit", "", "", Limits{"same", "bulk", 300 * mbit, 300 * mbit}},
		"over its ceil":            {"cross", "200mbit", "", "rate 200mbit of class cross is over its ceil 100mbit; give ceil=200mbit as well", Limits{}},
		"rate over ceil":           {"cross", "50mbit", "40mbit", "class cross: rate 50mbit is over its ceil 40mbit", Limits{}},
		"children over the parent": {"same", "750mbit", "", "class bulk: the rates of its children (2) come to 850mbit, over its ceil 800mbit", Limits{}},
		"parent under its children": {"bulk", "200mbit", "", "class bulk: the rates of its children (2) come to 300mbit, over its ceil 200mbit; " +
			"a class and those below it have to be turned down together", Limits{}},
		"unknown":   {"corss", "50mbit", "", `class "corss" does not exist; did you mean cross?`, Limits{}},
		"not near":  {"elsewhere", "50mbit", "", `class "elsewhere" does not exist; known: bulk, same, cross, default`, Limits{}},
		"control":   {"control", "50mbit", "", "ARP and neighbour discovery", Limits{}},
		"too small": {"cross", "0.0000001%", "", "comes to less than 8bit", Limits{}},
	} {
		t.Run(name, func(t *testing.T) {
			inForce, refused := tree().Apply([]Override{give(t, c.class, c.rate, c.ceil, time.Hour)})
			if c.refused != "" {
				if len(refused) != 1 || len(inForce) != 0 || !strings.Contains(refused[0].Reason.String(), c.refused) {
					t.Fatalf("in force %v, refused %v, want %q", inForce, refused, c.refused)
				}
				return
			}
			if len(refused) != 0 || len(inForce) != 1 || inForce[0].Limits != c.want {
				t.Fatalf("in force %v, refused %v, want %v", inForce, refused, c.want)
			}
		})
	}
	blind := tree()
	blind.Link = 0
	if _, refused := blind.Apply([]Override{give(t, "cross", "5%", "", time.Hour)}); len(refused) != 1 || !strings.Contains(refused[0].Reason.String(), "speed of eth1 is not known") {
		t.Errorf("percent of an unknown link: %v", refused)
	}
	other := give(t, "cross", "50mbit", "", time.Hour)
	other.Interface = "eth2"
	if inForce, refused := tree().Apply([]Override{other}); inForce != nil || refused != nil {
		t.Errorf("another interface's: %v %v", inForce, refused)
	}
}

// TestSetLooksAhead: what goes together with another override must not outlast it.
func TestSetLooksAhead(t *testing.T) {
	rates := tree()
	list, err := rates.Set(nil, give(t, "same", "50mbit", "", time.Hour), noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rates.Set(list, give(t, "bulk", "150mbit", "", 2*time.Hour), noon); err == nil || !strings.Contains(err.Error(), "when another override ends at") ||
		!strings.Contains(err.Error(), "override bulk at 150mbit") {
		t.Errorf("the parent's outlasts the child's: %v", err)
	}
	list, err = rates.Set(list, give(t, "bulk", "150mbit", "", time.Hour), noon)
	if err != nil {
		t.Fatalf("together: %v", err)
	}
	if _, err := rates.Set(list, give(t, "same", "60mbit", "", time.Minute), noon); err == nil {
		t.Error("the child's could be shortened under the parent's")
	}
	if _, _, err := rates.Clear(list, "same", noon); err == nil || !strings.Contains(err.Error(), "class bulk") {
		t.Errorf("the child's could be cleared alone: %v", err)
	}
	rest, cleared, err := rates.Clear(list, "", noon)
	if err != nil || len(rest) != 0 || len(cleared) != 2 {
		t.Errorf("all cleared: %v %v %v", rest, cleared, err)
	}
	again, err := rates.Set(list, give(t, "same", "40mbit", "", 3*time.Hour), noon)
	if err != nil || len(again) != 2 {
		t.Errorf("a second one for the class: %v %v", again, err)
	}
	if list, err := rates.Set(list, give(t, "cross", "50mbit", "", 3*time.Hour), noon.Add(90*time.Minute)); err != nil || len(list) != 1 {
		t.Errorf("those that have ended are left out: %v %v", list, err)
	}
}

// TestApplyProperty: what is in force together keeps the rules, and an override that is alone possible is refused only where others are.
func TestApplyProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Override
		for _, class := range []string{"bulk", "same", "cross", "default"} {
			if rapid.Bool().Draw(t, class) {
				r := config.Rate{Fixed: tc.BitRate(rapid.IntRange(1, 1000).Draw(t, "rate")) * mbit}
				o := New("eth1", class, r, config.Rate{}, noon.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "since"))*time.Second), time.Hour)
				if rapid.Bool().Draw(t, "with ceil") {
					o.Ceil = config.Rate{Fixed: tc.BitRate(rapid.IntRange(1, 1000).Draw(t, "ceil")) * mbit}
				}
				list = append(list, o)
			}
		}
		rates := tree()
		inForce, refused := rates.Apply(list)
		if len(inForce)+len(refused) != len(list) {
			t.Fatalf("%d in force and %d refused of %d", len(inForce), len(refused), len(list))
		}
		now := map[string]Limits{}
		for _, l := range rates.Classes {
			now[l.Name] = l
		}
		for _, f := range inForce {
			if f.Configured != now[f.Class] {
				t.Fatalf("%s is configured as %v, not %v", f.Class, now[f.Class], f.Configured)
			}
			now[f.Class] = f.Limits
		}
		sum := tc.BitRate(0)
		for _, l := range now {
			if l.Rate > l.Ceil {
				t.Fatalf("%v", l)
			}
			if l.Parent == "bulk" {
				sum += l.Rate
			}
		}
		if sum > now["bulk"].Ceil {
			t.Fatalf("children %s over %s", sum, now["bulk"].Ceil)
		}
		if len(list) == 1 && len(refused) == 1 {
			if _, err := rates.Set(nil, list[0], noon.Add(10*time.Second)); err == nil {
				t.Fatal("Set takes what Apply refuses")
			}
		}
	})
}

func TestArguments(t *testing.T) {
	r, c, err := ParseSettings([]string{"ceil=100mbit", "rate=5%"})
	if err != nil || r.Percent != 5 || c.Fixed != 100*mbit {
		t.Errorf("%v %v %v", r, c, err)
	}
	for text, want := range map[string]string{
		"":                      "no rate is given",
		"rate":                  "write it like rate=50mbit",
		"rate=50":               "has no unit; write 50mbit",
		"rate=":                 "no rate is given",
		"rate=0%":               "not over 0%",
		"rate=120%":             "up to 100%",
		"rat=50mbit":            "did you mean rate?",
		"burst=5kb":             "did you mean rate or ceil?",
		"rate=1mbit rate=2mbit": "given twice",
		"ceil=5mbit":            "no rate is given",
	} {
		if _, _, err := ParseSettings(strings.Fields(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "--for 30m", "30": "write 30m for minutes", "soon": "write it like 30m", "-5m": "shorter than 1s", "0s": "shorter", "200h": "longer than 7 days; for that long, edit",
		"9999999h": "no length of time",
	} {
		if _, err := ParseLength(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--for %q: %v, want %q", text, err, want)
		}
	}
	if d, err := ParseLength("168h"); err != nil || d != Longest {
		t.Errorf("a week: %v %v", d, err)
	}
}

func TestStore(t *testing.T) {
	store := Store{t.TempDir()}
	if list, err := store.Load(); list != nil || err != nil {
		t.Fatalf("without a file: %v %v", list, err)
	}
	want := give(t, "cross", "50mbit", "60mbit", time.Hour)
	if err := want.Say("ticket 4711, \"größer\"", "root"); err != nil {
		t.Fatal(err)
	}
	if err := store.Update(func([]Override) ([]Override, error) {
		return []Override{want, give(t, "same", "12.5%", "", time.Minute)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	list, err := store.Load()
	if err != nil || len(list) != 2 || !list[0].Same(want) || list[1].Rate.Percent != 12.5 {
		t.Fatalf("%v %v", list, err)
	}
	if err := store.Remove(list[:1]); err != nil {
		t.Fatal(err)
	}
	if list, _ := store.Load(); len(list) != 1 || list[0].Class != "same" {
		t.Fatalf("after Remove: %v", list)
	}
	lock, err := runfile.Lock(store.Dir, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Remove(list); !errors.Is(err, runfile.ErrLocked) {
		t.Errorf("Remove while another writes: %v", err)
	}
	lock.Close()
	entries, err := os.ReadDir(store.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v %v", entries, err)
	}
}

// TestStoreAtOnce: writers do not lose each other's.
func TestStoreAtOnce(t *testing.T) {
	store := Store{t.TempDir()}
	var group sync.WaitGroup
	classes := strings.Fields("a b c d e f g h")
	for _, class := range classes {
		one := give(t, class, "1mbit", "", time.Hour)
		group.Go(func() {
			if err := store.Update(func(list []Override) ([]Override, error) { return append(list, one), nil }); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if list, err := store.Load(); err != nil || len(list) != len(classes) {
		t.Errorf("%d of %d, %v", len(list), len(classes), err)
	}
}

// TestStoreRefuses files that somebody else may have written, and content that is not exactly ours.
func TestStoreRefuses(t *testing.T) {
	const good = `{"version":1,"overrides":[{"interface":"eth1","class":"c","rate":"1mbit","since":"2026-03-01T12:00:00Z","until":"2026-03-01T13:00:00Z"}]}`
	if list, err := parse([]byte(good)); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for name, c := range map[string]struct {
		make func(path string) error
		says string
	}{
		"writable by all": {func(p string) error { return errors.Join(os.WriteFile(p, []byte(good), 0o644), os.Chmod(p, 0o666)) }, "lets others write it"},
		"link": {func(p string) error {
			return errors.Join(os.WriteFile(p+"x", []byte(good), 0o644), os.Symlink(p+"x", p))
		}, "too many levels"},
		"FIFO":       {func(p string) error { return unix.Mkfifo(p, 0o644) }, "not a regular file"},
		"folder":     {func(p string) error { return os.Mkdir(p, 0o755) }, "not a regular file"},
		"large":      {func(p string) error { return os.WriteFile(p, make([]byte, maxFileSize+1), 0o644) }, "more than"},
		"empty":      {content(""), "remove the file"},
		"torn":       {content(good[:60]), "remove the file"},
		"other key":  {content(strings.Replace(good, `"rate"`, `"rat":"x","rate"`, 1)), "rat"},
		"other case": {content(strings.Replace(good, `"rate"`, `"Rate"`, 1)), "Rate"},
		"twice":      {content(strings.Replace(good, `"rate"`, `"rate":"2mbit","rate"`, 1)), "rate"},
		"behind it":  {content(good + "{}"), "behind"},
		"version":    {content(strings.Replace(good, `"version":1`, `"version":2`, 1)), "version 2 is not known"},
		"no unit":    {content(strings.Replace(good, "1mbit", "1", 1)), "has no unit"},
		"for ever":   {content(strings.Replace(good, "2026-03-01T13", "2036-03-01T13", 1)), "it lasts"},
		"backwards":  {content(strings.Replace(good, "01T13", "01T11", 1)), "it lasts"},
		"escape":     {content(strings.Replace(good, `"since"`, `"why":"\u001b[2J","since"`, 1)), "cannot be printed"},
		"no class":   {content(strings.Replace(good, `"c"`, `""`, 1)), "missing"},
		"same class": {content(strings.Replace(good, `[{`, good[strings.Index(good, "[{"):len(good)-2]+`,{`, 1)), "has one already"},
	} {
		t.Run(name, func(t *testing.T) {
			store := Store{t.TempDir()}
			path := filepath.Join(store.Dir, FileName)
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			list, err := store.Load()
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, %v, want %q", list, err, c.says)
			}
		})
	}
}

func content(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"overrides":[{"interface":"eth1","class":"c","rate":"1mbit","ceil":"5%","since":"2026-03-01T12:00:00Z","until":"2026-03-01T13:00:00Z","why":"w","by":"b"}]}`))
	f.Add([]byte(`{"version":1,"overrides":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parse(data)
		if err != nil {
			return
		}
		again, err := format(list)
		if err != nil {
			t.Fatal(err)
		}
		back, err := parse(again)
		if err != nil || len(back) != len(list) {
			t.Fatalf("%s\nreads as %v, %v", again, back, err)
		}
		for i := range list {
			if !list[i].Same(back[i]) {
				t.Fatalf("%v, back %v", list[i], back[i])
			}
		}
	})
}
