// Package view makes of what the program knows the text that people read: the status, the plan, problems of files. It is pure: values and
// the style of the place in, lines out. It imports shaper's packages, inventory and screen.
package view
