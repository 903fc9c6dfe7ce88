package metrics

import (
	"log"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// errorLog takes what an http.Server has to say. That is about single clients, broken handshakes and resets, and a port scan would fill
// the log: it is for Debug. But handshakes fail for everybody once the web config or a file that it names is broken, so at a failed one that is
// looked into.
type errorLog struct {
	log       *zap.Logger
	webConfig string

	mu     sync.Mutex
	looked time.Time
	told   told
}

// lookAgain is the least time between two readings of the web config, however many handshakes fail.
const lookAgain = time.Second

func (o ServeOptions) errorLog() *log.Logger {
	return log.New(&errorLog{log: o.Log, webConfig: o.WebConfig}, "", 0)
}

// Write implements io.Writer. The line quotes the web config where that is what failed.
func (e *errorLog) Write(line []byte) (int, error) {
	text := withoutValues(string(line))
	e.log.Debug(text)
	if e.webConfig == "" || !strings.Contains(text, "TLS handshake error") || !e.turn(time.Now()) {
		return len(line), nil
	}
	if err := CheckWebConfig(e.webConfig); err != nil && e.told.news(err.Error(), time.Now()) {
		e.log.Error("nobody is let in until metrics.web_config is put right", zap.String("web_config", e.webConfig), zap.Error(err))
	}
	return len(line), nil
}

// turn says whether the web config is to be read now.
func (e *errorLog) turn(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.looked) < lookAgain {
		return false
	}
	e.looked = now
	return true
}
