package metrics

import (
	"log"
	"strings"
	"time"

	"go.uber.org/zap"
)

// errorLog takes what an http.Server has to say. That is about single clients, broken handshakes and resets, and a port scan would fill
// the log: it is for Debug. But handshakes fail for everybody once the web config or a file that it names is broken, so at a failed one that is
// looked into.
type errorLog struct {
	log  *zap.Logger
	web  webWatch
	told told
}

func (o ServeOptions) errorLog() *log.Logger {
	return log.New(&errorLog{log: o.Log, web: webWatch{path: o.WebConfig}}, "", 0)
}

// Write implements io.Writer. The line quotes the web config where that is what failed.
func (e *errorLog) Write(line []byte) (int, error) {
	text := withoutValues(string(line))
	e.log.Debug(text)
	if e.web.path == "" || !strings.Contains(text, "TLS handshake error") {
		return len(line), nil
	}
	if err := e.web.problem(); err != nil && e.told.news(err.Error(), time.Now()) {
		e.log.Error("nobody is let in until metrics.web_config is put right", zap.String("web_config", e.web.path), zap.Error(err))
	}
	return len(line), nil
}
