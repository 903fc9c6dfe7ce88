package live

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"bulkshaper/cmd/bulkshaper/screen"
	"bulkshaper/cmd/bulkshaper/view"
	"bulkshaper/shaper"
)

// Options is whom to ask, how often, and what the terminal can show.
type Options struct {
	Ask func(context.Context) (shaper.Status, error)
	// Recent is what was sent before, nil where nobody knows.
	Recent   func(context.Context) (shaper.Recent, error)
	Source   string
	Interval time.Duration
	Style    screen.Style
}

// model is what is shown, and all that it depends on: the same messages give the same screen.
type model struct {
	Options
	ctx           context.Context
	width, height int

	status  shaper.Status // the last
	asked   bool          // there is one
	failed  error         // of the last question
	since   time.Time     // when that began
	now     time.Time
	before  history
	dropped map[string]uint64 // since the last reading, by classid

	sort   int // of view.Sorts
	last   int // of spans
	offset int // of the first class shown
	paused bool
	help   bool
	round  int // tells the ticks of now from those before a pause
}

// spans are what the lines of the last minutes can cover.
func spans() []time.Duration {
	return []time.Duration{5 * time.Minute, 10 * time.Minute, time.Minute}
}

// answered is the end of a question.
type answered struct {
	status shaper.Status
	err    error
	at     time.Time
	round  int
}

// remembered is what was sent before.
type remembered struct{ recent shaper.Recent }

// due says that it is time for the next question.
type due struct{ round int }

func newModel(ctx context.Context, o Options) *model {
	return &model{Options: o, ctx: ctx, width: 80, height: 24, before: history{}, dropped: map[string]uint64{}}
}

// Init asks for the first time.
func (m *model) Init() tea.Cmd {
	if m.Recent == nil {
		return m.ask()
	}
	return tea.Batch(m.ask(), func() tea.Msg {
		r, err := m.Recent(m.ctx)
		if err != nil {
			return nil // the lines begin with this program, then
		}
		return remembered{r}
	})
}

func (m *model) ask() tea.Cmd {
	round := m.round
	return func() tea.Msg {
		s, err := m.Ask(m.ctx)
		return answered{s, err, time.Now(), round}
	}
}

// Update takes in an answer or a key.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case remembered:
		m.before.take(msg.recent)
	case answered:
		if msg.round != m.round || m.paused {
			return m, nil
		}
		m.take(msg)
		return m, tea.Tick(m.Interval, func(time.Time) tea.Msg { return due{msg.round} })
	case due:
		if msg.round == m.round && !m.paused {
			return m, m.ask()
		}
	case tea.KeyPressMsg:
		cmd := m.key(msg.String())
		m.lines() // so that the next key scrolls from where the screen can be
		return m, cmd
	}
	return m, nil
}

func (m *model) take(a answered) {
	m.now = a.at
	if a.err != nil {
		if m.failed == nil {
			m.since = a.at
		}
		m.failed = a.err
		return
	}
	clear(m.dropped)
	before := map[string]uint64{}
	for _, c := range m.status.Classes {
		before[c.ClassID] = c.Dropped
	}
	view.Measure(m.status, &a.status)
	for _, c := range a.status.Classes {
		if was, ok := before[c.ClassID]; ok && c.Dropped > was {
			m.dropped[c.ClassID] = c.Dropped - was
		}
	}
	m.before.add(a.status)
	m.status, m.asked, m.failed = a.status, true, nil
}

// key does what a key says.
func (m *model) key(key string) tea.Cmd {
	if m.help {
		m.help = false
		if key != "q" && key != "ctrl+c" {
			return nil
		}
	}
	page := max(1, m.height-10)
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "?", "h":
		m.help = true
	case "s":
		m.sort = (m.sort + 1) % len(view.Sorts())
	case "S":
		m.sort = (m.sort + len(view.Sorts()) - 1) % len(view.Sorts())
	case "t":
		m.last = (m.last + 1) % len(spans())
	case "p", "space":
		m.paused = !m.paused
		if m.round++; !m.paused {
			return m.ask()
		}
	case "up", "k":
		m.offset--
	case "down", "j":
		m.offset++
	case "pgup":
		m.offset -= page
	case "pgdown":
		m.offset += page
	case "home", "g":
		m.offset = 0
	case "end", "G":
		m.offset = len(m.status.Classes)
	}
	return nil
}

// View is the screen.
func (m *model) View() tea.View {
	v := tea.NewView(join(m.lines()))
	v.AltScreen = true
	v.WindowTitle = "bulkshaper " + m.status.Node
	return v
}

func join(lines []string) string {
	n := 0
	for _, l := range lines {
		n += len(l) + 1
	}
	text := make([]byte, 0, n)
	for i, l := range lines {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, l...)
	}
	return string(text)
}

// order is the order of the classes.
func (m *model) order() string { return view.Sorts()[m.sort] }

// span is what the lines of the last minutes cover.
func (m *model) span() time.Duration { return spans()[m.last] }

// recent is the line of the last minutes of each class.
func (m *model) recent(st screen.Style) map[string][]float64 {
	lines := make(map[string][]float64, len(m.status.Classes))
	for _, c := range m.status.Classes {
		lines[c.ClassID] = m.before.line(c.ClassID, m.status.Time, m.span(), view.SparkCells(st))
	}
	return lines
}

var _ tea.Model = (*model)(nil)

// keys are those that are told, for the line at the bottom: the first are the last to go.
func keys() []string {
	return []string{"q quit", "? help", "s sort", "p pause", "t minutes", "arrows scroll"}
}
