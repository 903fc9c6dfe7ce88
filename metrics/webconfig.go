package metrics

import (
	"regexp"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
)

// CheckWebConfig reads a web config of the exporter toolkit ("" for none) as Serve would. The file holds hashes of passwords and maybe a
// key, so the error has nothing of what is written there but the names of keys, and is one line. It wraps fs.ErrPermission and the like.
func CheckWebConfig(path string) error {
	if err := web.Validate(path); err != nil {
		return &webConfigError{err}
	}
	return nil
}

// webConfigError is what the toolkit says of a file, without the values.
type webConfigError struct{ error }

func (e *webConfigError) Error() string { return withoutValues(e.error.Error()) }
func (e *webConfigError) Unwrap() error { return e.error }

// withoutValues takes out of a message what the YAML decoder quotes of a file: values in backquotes, and the anchor that a value seems to be
// which begins with a star. A value may have quotes in it, so all goes from the first to the last.
func withoutValues(message string) string {
	quoted := regexp.MustCompile("(?s)`.*`|anchor '.*'")
	message = quoted.ReplaceAllStringFunc(message, func(found string) string {
		if strings.HasPrefix(found, "anchor") {
			return "anchor"
		}
		return "a value"
	})
	return strings.Join(strings.Fields(message), " ")
}
