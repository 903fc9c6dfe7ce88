package config

import "strings"

// Nearest is the candidate that a person most likely meant by word: the one with the fewest letters added, left out, changed
// or swapped with their neighbour, if those are few for its length; "" where none is near. Case, - and _ do not count. Of
// equally near ones the first is taken.
func Nearest(word string, candidates []string) string {
	best, distance := "", min(1+max(1, len(word)/3), len(word))
	for _, c := range candidates {
		if d := editDistance(fold(word), fold(c), distance); d < distance {
			best, distance = c, d
		}
	}
	return best
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// didYouMean is the remedy that names the nearest candidate, or else all of them.
func didYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	if len(candidates) == 0 {
		return "there are none"
	}
	return "known: " + strings.Join(candidates, ", ")
}

// editDistance is the optimal string alignment distance of a and b, bytewise; bound or more where it is not under bound.
func editDistance(a, b string, bound int) int {
	if len(a)-len(b) >= bound || len(b)-len(a) >= bound {
		return bound
	}
	var before []int
	last, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := last[j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			row[j] = min(changed, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
