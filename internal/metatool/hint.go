package metatool

import (
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of the words in a hint.
const (
	hintWords = 3
	hintChars = 16
)

// hintOf says in one line what is wrong with a query: the words that no entry of the kind has, or those that
// the best one lacks. It is "" if the best one is a close match. An entry that deletes is never offered for an
// object that it lacks without a hint.
func hintOf(kind primitive.Kind, fit search.Fit) string {
	no := "No " + string(kind) + " has "
	switch {
	case len(fit.Unmet) > 0 && (fit.Share < closeFit || fit.Deletes):
		line := no + quotedWords(fit.Unmet)
		if !fit.English && len(fit.Unmet) > 2*fit.Known {
			line += "; ask in English"
		}
		return line
	case len(fit.Lacking) > 0 && (fit.Share < weakFit || fit.Deletes || fit.Contrary):
		return no + quotedWords(fit.Lacking) + " as well"
	case fit.Share < weakFit:
		return "No close match"
	}
	return ""
}

// quotedWords returns words in quotes.
func quotedWords(words []string) string {
	quoted := make([]string, min(len(words), hintWords))
	for i := range quoted {
		quoted[i] = strconv.Quote(text.Fit(words[i], hintChars))
	}
	return strings.Join(quoted, ", ")
}
