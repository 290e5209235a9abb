package clients

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// ask puts answers in the place of the plan's questions. An answer to a password becomes a secret. A
// question without an answer stays if it has a default; otherwise its server stays in its clients,
// which ask for themselves.
func (p *Plan) ask(answer func(client, server string, question splice.Object) (string, bool)) {
	type asked struct{ client, id string }
	answers := map[asked]*string{}
	once := func(s Server, question splice.Object) *string {
		id, _ := question.Get("id").(string)
		key := asked{s.Client, id}
		text, known := answers[key]
		if known {
			return text
		}
		if answer != nil {
			if given, ok := answer(s.Client, s.Name, question); ok {
				text = &given
			}
		}
		if fallback, _ := question.Get("default").(string); text == nil && fallback != "" {
			text = &fallback
		}
		answers[key] = text
		return text
	}
	var kept []Planned
	for _, planned := range p.Servers {
		if open := p.answered(&planned, once); open != nil {
			p.leave(planned, "it asks for "+clip(wanted(open))+", which weir import asks at a terminal")
			continue
		}
		kept = append(kept, planned)
	}
	p.Servers = kept
}

// answered puts the answers into one server. It returns the first question that has none, or nil.
func (p *Plan) answered(planned *Planned, answer func(Server, splice.Object) *string) (open splice.Object) {
	for _, question := range planned.Server.Inputs {
		text := answer(planned.From[0], question)
		if text == nil {
			return question
		}
		id, _ := question.Get("id").(string)
		value := escape(*text)
		if question.Get("password") == true {
			value = (&concealer{plan: p, server: planned.Name}).secret(id, "inputs."+id, *text)
		}
		planned.Server.fill(id, value)
	}
	return nil
}

// leave leaves a planned server in its clients.
func (p *Plan) leave(planned Planned, reason string) {
	for _, s := range planned.From {
		s.Stay = reason
		p.Stay = append(p.Stay, s)
	}
}

// wanted names the value that a question asks for.
func wanted(question splice.Object) string {
	for _, key := range []string{"description", "id"} {
		if text, _ := question.Get(key).(string); text != "" {
			return `"` + text + `"`
		}
	}
	return "an input"
}

// fill puts a value in the place of an input.
func (s *Server) fill(id, value string) {
	put := strings.NewReplacer("$${", "$${", "${input:"+id+"}", value)
	s.Args, s.Env, s.Headers = slices.Clone(s.Args), maps.Clone(s.Env), maps.Clone(s.Headers)
	for _, text := range []*string{&s.Command, &s.Cwd, &s.URL, &s.EnvFile} {
		*text = put.Replace(*text)
	}
	for i, text := range s.Args {
		s.Args[i] = put.Replace(text)
	}
	for _, texts := range []map[string]string{s.Env, s.Headers} {
		for name, text := range texts {
			texts[name] = put.Replace(text)
		}
	}
}
