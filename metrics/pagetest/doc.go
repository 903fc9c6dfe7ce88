// Package pagetest looks at the page for people in a real Chromium, which it installs from Debian where there is none. It has tests
// only, with build tag system (make test-system). PAGETEST_OUT names a folder that keeps the screenshots.
package pagetest
