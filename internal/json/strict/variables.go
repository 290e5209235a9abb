package strict

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxNested bounds ${A:-${B:-…}}.
const maxNested = 16

// Variables replaces the references in texts of a file:
//
//	${VAR}, ${env:VAR}   a variable of the environment
//	${VAR:-text}         the same, or text if it is unset or empty
//	$${                  the characters ${
//
// It does not expand the text of a replacement again.
type Variables struct {
	// Lookup reads a variable, as os.LookupEnv does. Nil: no variable is set.
	Lookup func(name string) (value string, ok bool)
	// Other returns the value of a reference that is known to the caller, the text between ${ and }. Nil
	// knows none.
	Other func(ref string) (value string, known bool, err error)
	// Others names the references of Other in the message about an unknown one, with a separator before
	// them. "" names none.
	Others string
	// Resolved hears the value of each variable that is used. Nil hears nothing.
	Resolved func(name, value string)
}

// Expand returns the text with its references replaced.
func (v Variables) Expand(text string) (string, error) { return v.expand(text, 0) }

func (v Variables) expand(text string, depth int) (string, error) {
	if depth > maxNested {
		return "", fmt.Errorf("defaults are nested more than %d deep", maxNested)
	}
	var out strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		end := closing(text[i+2:])
		if end < 0 {
			return "", errors.New("${ without a closing }; write $${ for the characters themselves")
		}
		value, err := v.value(text[i+2:i+2+end], depth)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[i+2+end+1:]
	}
}

// value returns the value of one reference.
func (v Variables) value(ref string, depth int) (string, error) {
	if v.Other != nil {
		if value, known, err := v.Other(ref); known {
			return value, err
		}
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	if !VariableName(name) {
		return "", fmt.Errorf("%q is not a variable: known are ${VAR}, ${VAR:-default}, ${env:VAR}%s; write $${ for the characters themselves", Clip("${"+ref+"}"), v.Others)
	}
	value, found := "", false
	if v.Lookup != nil {
		value, found = v.Lookup(name)
	}
	if hasFallback && (!found || value == "") {
		return v.expand(fallback, depth+1)
	}
	if !found {
		return "", fmt.Errorf("the environment variable %s is not set; set it, or give a default with ${%s:-default}", name, name)
	}
	if v.Resolved != nil {
		v.Resolved(name, value)
	}
	return value, nil
}

// References returns the references in a text, each once and as far as it names its source: ${HOME} for
// ${HOME:-/root}. Only variables have a default, so ${exec:a :-b} is a whole one.
func References(text string) (found []string) {
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			return found
		}
		end := closing(text[i+2:])
		if end < 0 {
			return found
		}
		if i == 0 || text[i-1] != '$' {
			name := text[i+2 : i+2+end]
			if variable, _, _ := strings.Cut(name, ":-"); VariableName(strings.TrimPrefix(variable, "env:")) {
				name = variable
			}
			if one := "${" + name + "}"; !slices.Contains(found, one) {
				found = append(found, one)
			}
		}
		text = text[i+2+end+1:]
	}
}

// Reference returns the reference that a text starts with; the whole text if it does not end there.
func Reference(text string) string {
	if end := closing(text[2:]); end >= 0 {
		return text[:2+end+1]
	}
	return text
}

// closing returns the offset of the } that ends a reference. Its ${ was just read.
func closing(text string) int {
	open := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '$' && i+1 < len(text) && text[i+1] == '{':
			open++
			i++
		case text[i] == '}' && open == 0:
			return i
		case text[i] == '}':
			open--
		}
	}
	return -1
}

// VariableName reports whether shells can set a variable with this name.
func VariableName(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
