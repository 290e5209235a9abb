package mcpregistry

import (
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/text/lazy"
)

// filler makes the texts of an entry. Without answers it collects the questions.
type filler struct {
	plan      *Plan
	answers   map[string]string // nil while questions are collected
	questions []Question
}

// shortName returns the last part of a server's name, in letters that the name of a secret may
// have.
func shortName(name string) string {
	return secretName(name[strings.LastIndex(name, "/")+1:])
}

var noLetter = lazy.Pattern(`[^A-Z0-9]+`)

// secretName returns a text as the name of a secret.
func secretName(text string) string {
	name := strings.Trim(noLetter().ReplaceAllString(strings.ToUpper(text), "_"), "_")
	if name == "" || name[0] <= '9' {
		name = "S_" + name
	}
	return name[:min(len(name), 60)]
}

// escape keeps a text from naming variables and secrets of the user.
func escape(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// part is a piece of a text: as it stands, or a secret by its name.
type part struct{ text, secret string }

// join returns the text of parts. Neighbours are escaped together, because $ and { may meet.
func join(parts ...part) string {
	var out, plain strings.Builder
	for _, p := range parts {
		plain.WriteString(p.text)
		if p.secret != "" {
			out.WriteString(escape(plain.String()) + "${secret:" + p.secret + "}")
			plain.Reset()
		}
	}
	return out.String() + escape(plain.String())
}

// ask returns the answer to a question. ok is false if there is none.
func (f *filler) ask(name string, in Input) (answer part, ok bool) {
	q := Question{
		ID: name, Secret: in.IsSecret, Description: in.Description, Format: in.Format, Default: string(in.Default), Required: in.IsRequired,
	}
	for _, choice := range in.Choices {
		q.Choices = append(q.Choices, string(choice))
	}
	if q.Description == "" {
		q.Description = in.Placeholder
	}
	if q.Secret {
		q.Default = "" // A default that all users share is not secret.
		if q.ID = secretName(name); !strings.Contains(q.ID, f.plan.short) {
			q.ID = f.plan.short + "_" + q.ID
		}
	}
	if !slices.ContainsFunc(f.questions, func(other Question) bool { return other.ID == q.ID }) {
		f.questions = append(f.questions, q)
	}
	given := f.answers[q.ID]
	switch {
	case given != "" && q.Secret:
		return part{secret: q.ID}, true
	case given == "":
		given = q.Default
	}
	return part{text: given}, given != ""
}

// value returns the text of a variable, header or argument. ok is false if it is left out.
func (f *filler) value(name string, in Input, variables map[string]Input) (text string, ok bool) {
	if in.Value != "" {
		return f.template(string(in.Value), variables), true
	}
	answer, ok := f.ask(name, in)
	return join(answer), ok
}

var placeholder = lazy.Pattern(`\{[A-Za-z_][A-Za-z0-9_.-]*\}`)

// template returns a text with its {variables} replaced, once.
func (f *filler) template(text string, variables map[string]Input) string {
	var parts []part
	last := 0
	for _, at := range placeholder().FindAllStringIndex(text, -1) {
		name := text[at[0]+1 : at[1]-1]
		in, known := variables[name]
		if !known {
			continue
		}
		parts = append(parts, part{text: text[last:at[0]]})
		last = at[1]
		if in.Value != "" {
			parts = append(parts, part{text: string(in.Value)})
			continue
		}
		answer, _ := f.ask(name, in)
		parts = append(parts, answer)
	}
	return join(append(parts, part{text: text[last:]})...)
}

// arguments returns the words of a program's arguments. A named one is two words.
func (f *filler) arguments(list []Argument) (words []string) {
	for _, a := range list {
		if a.Type != "named" {
			name := a.ValueHint
			if name == "" {
				name = a.Name
			}
			if name == "" {
				name = "argument"
			}
			if value, ok := f.value(name, a.Input, a.Variables); ok {
				words = append(words, value)
			}
			continue
		}
		name := strings.TrimLeft(a.Name, "-")
		switch {
		case a.Format == "boolean":
			if value, _ := f.value(name, a.Input, a.Variables); value == "true" {
				words = append(words, escape(a.Name))
			}
		case a.flag():
			words = append(words, escape(a.Name))
		default:
			if value, ok := f.value(name, a.Input, a.Variables); ok {
				words = append(words, escape(a.Name), value)
			}
		}
	}
	return words
}

// flag reports whether a named argument is only a word: nothing can give it a value.
func (a Argument) flag() bool {
	return a.Value == "" && a.Default == "" && a.ValueHint == "" && a.Placeholder == "" && a.Description == "" && len(a.Choices) == 0 && !a.IsSecret
}

// environment returns the variables that have a value.
func (f *filler) environment(list []Argument) map[string]string {
	env := map[string]string{}
	for _, v := range list {
		if value, ok := f.value(v.Name, v.Input, v.Variables); ok {
			env[v.Name] = value
		}
	}
	if len(env) == 0 {
		return nil
	}
	return env
}
