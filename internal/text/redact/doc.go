// Package redact takes secrets out of texts. It knows the secrets by value: [New]
// makes a [Set] of them, and Replace finds each in the forms in which programs write
// texts.
//
//	URL, args ─▶ InURL, InArgs ─▶ secrets ─▶ New ─▶ Set ─▶ Replace ─▶ "… [redacted] …"
//
// [InURL] and [InArgs] find secrets by their place: a value in a query, the argument
// of --token, a random segment of a path.
//
// The package is pure. It knows neither configurations nor MCP.
package redact
