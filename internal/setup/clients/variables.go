package clients

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/text/lazy"
)

// syntax is the form of variables in a client's entry.
type syntax int

const (
	literal     syntax = iota // none: every text is as it stands
	own                       // weir's own
	braces                    // ${X}
	withDefault               // ${X}, ${X:-text}
	named                     // ${env:X}
	editor                    // ${env:X}, ${input:id} and the others of VS Code
	inputs                    // ${input:id}
	shellLike                 // $X, ${X}, ${X:-text}; %X% on Windows; "" if unset
	curly                     // {env:X}; "" if unset
	secrets                   // ${{ secrets.X }}
	shell                     // $X, ${X}, ${X:-text}, and commands, which weir never runs
)

// errUnmovable is the error for a text that only its client understands.
type errUnmovable string

func (e errUnmovable) Error() string { return string(e) }

// translate returns a text of a client as weir writes it. The error says why it cannot be moved.
func (s syntax) translate(text string, windows bool) (string, error) {
	switch s {
	case own:
		return text, nil
	case literal:
		return escape(text), nil
	case curly:
		return s.curly(text)
	case shell:
		if strings.Contains(text, "$(") || strings.Contains(text, "`") {
			return "", errUnmovable("it has a command that a shell would run; weir runs none")
		}
	}
	var out strings.Builder
	for text != "" {
		at := strings.IndexAny(text, "$%")
		if at < 0 {
			break
		}
		out.WriteString(text[:at])
		text = text[at:]
		value, rest, err := s.reference(text, windows)
		if err != nil {
			return "", err
		}
		if strings.HasSuffix(out.String(), "$") && strings.HasPrefix(value, "${") {
			return "", errUnmovable("weir cannot write a $ before a variable")
		}
		out.WriteString(value)
		text = rest
	}
	out.WriteString(text)
	return out.String(), nil
}

// reference translates the reference at a $ or %, and returns the text after it.
func (s syntax) reference(text string, windows bool) (value, rest string, err error) {
	dollars := s == shellLike || s == shell
	if text[0] == '%' {
		name, rest, ok := strings.Cut(text[1:], "%")
		if ok && windows && s == shellLike && variable(name) {
			return "${" + name + ":-}", rest, nil
		}
		return "%", text[1:], nil
	}
	if dollars && s == shell && strings.HasPrefix(text, `$$`) {
		return "$", text[2:], nil
	}
	if !strings.HasPrefix(text, "${") {
		end := 1
		for end < len(text) && variable(text[1:end+1]) {
			end++
		}
		if !dollars || end == 1 {
			return "$", text[1:], nil
		}
		return s.unset(text[1:end]), text[end:], nil
	}
	inside, rest, ok := strings.Cut(text[2:], "}")
	if !ok {
		return "$${", text[2:], nil
	}
	if s == secrets {
		name, isSecret := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(inside, "{")), "secrets.")
		if strings.HasPrefix(inside, "{") && strings.HasPrefix(rest, "}") && isSecret && variable(strings.TrimSpace(name)) {
			return "${env:" + strings.TrimSpace(name) + "}", rest[1:], nil
		}
		return "$${", text[2:], nil
	}
	value, err = s.inBraces(inside)
	if err != nil {
		return "", "", err
	}
	if value == "" {
		return "$${", text[2:], nil
	}
	return value, rest, nil
}

// unset translates a reference to a variable that the client replaces by "" if it is unset.
func (s syntax) unset(name string) string {
	if s == shellLike {
		return "${" + name + ":-}"
	}
	return "${env:" + name + "}"
}

// inBraces translates the inside of ${…}. It returns "" if that is not a variable of the client.
func (s syntax) inBraces(inside string) (string, error) {
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	scope, scoped, isScoped := strings.Cut(inside, ":")
	switch s {
	case braces, withDefault, shellLike, shell:
		switch {
		case !hasFallback && variable(inside):
			return s.unset(inside), nil
		case hasFallback && s != braces && variable(name) && !strings.Contains(fallback, "$"):
			return "${" + name + ":-" + fallback + "}", nil
		case s == shell:
			return "", errUnmovable("it has a shell expansion that weir does not know: ${" + clip(inside) + "}")
		case strings.HasPrefix(inside, "workspaceFolder"):
			return "", errUnmovable("it needs the folder that is open in the client")
		}
	case named, editor, inputs:
		switch {
		case isScoped && scope == "env" && s != inputs && variable(scoped):
			return "${env:" + scoped + "}", nil
		case isScoped && scope == "input" && s != named && scoped != "":
			return "${input:" + scoped + "}", nil
		case strings.HasPrefix(inside, "workspaceFolder"), strings.HasPrefix(inside, "workspaceRoot"):
			return "", errUnmovable("it needs the folder that is open in the client")
		case s == inputs:
		case inside == "userHome", inside == "pathSeparator", inside == "/":
			return "${" + inside + "}", nil
		case isScoped && (scope == "command" || scope == "config"), strings.HasPrefix(inside, "file"), inside == "cwd":
			return "", errUnmovable("${" + clip(inside) + "} is known to the client alone")
		}
	}
	return "", nil
}

// curly translates {env:X}; {file:path} stays in the client.
func (s syntax) curly(text string) (string, error) {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(text, "{env:")
		if strings.Contains(before, "{file:") {
			return "", errUnmovable("it takes a text from a file: {file:…}")
		}
		out.WriteString(escape(before))
		if !ok {
			return out.String(), nil
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed || !variable(name) {
			out.WriteString("{env:")
			text = after
			continue
		}
		out.WriteString("${" + name + ":-}")
		text = rest
	}
}

// escape writes a text so that weir reads it as it stands.
func escape(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// unescape returns the text that weir reads, for a text without variables.
func unescape(text string) string { return strings.ReplaceAll(text, "$${", "${") }

// hasVariable reports whether a text in weir's form has a variable.
func hasVariable(text string) bool {
	return strings.Contains(strings.ReplaceAll(text, "$${", ""), "${")
}

// resolve returns a text in weir's form with variables of the environment replaced, to compare
// texts. A variable that is not set stays.
func resolve(text string, getenv func(string) string) string {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(text, "${")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		inside, rest, closed := strings.Cut(after, "}")
		if strings.HasSuffix(before, "$") || !closed {
			out.WriteString("${")
			text = after
			continue
		}
		name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(inside, "env:"), ":-")
		value := ""
		if getenv != nil && variable(name) {
			value = getenv(name)
		}
		switch {
		case value != "":
		case hasFallback:
			value = fallback
		default:
			value = "${" + strings.TrimPrefix(inside, "env:") + "}"
		}
		out.WriteString(value)
		text = rest
	}
}

// variable reports whether shells can set a variable with this name.
func variable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// clip shortens a text of a client for a message.
func clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// movable returns the reason of an errUnmovable with its subject.
func movable(what string, err error) string {
	var reason errUnmovable
	if errors.As(err, &reason) {
		return fmt.Sprintf("%s: %s", what, string(reason))
	}
	return fmt.Sprintf("%s: %v", what, err)
}

// ownVariables matches references to variables of weir itself.
var ownVariables = lazy.Pattern(`(?i)\$\{(?:env:)?(WEIR_[A-Z0-9_]*)`)

// ownVariable returns a variable of weir itself that the server would be given, "" if there is none.
// Clients take their variables from another environment than weir, which may have tokens there.
func (s *Server) ownVariable() string {
	texts := slices.Concat([]string{s.Command, s.Cwd, s.EnvFile, s.URL}, s.Args, slices.Sorted(maps.Values(s.Env)), slices.Sorted(maps.Values(s.Headers)))
	if s.OAuth != nil {
		texts = append(append(texts, s.OAuth.ClientID), s.OAuth.Scopes...)
	}
	for _, text := range texts {
		if m := ownVariables().FindStringSubmatch(strings.ReplaceAll(text, "$${", "")); m != nil {
			return m[1]
		}
	}
	return ""
}
