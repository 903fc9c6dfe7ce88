package diff_test

import "context"

// contextOf is the test's context, where it has one.
func contextOf(t any) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}
