package metatool

// Way is the way of the calls of one tool through a gateway.
type Way struct {
	// Tool is the name of a meta-tool; "" stands for the tools that are called by the name in the list.
	Tool string `json:"tool"`
	// Steps are the names of the steps, in their order on the way to the server.
	Steps []string `json:"steps"`
}

// Steps returns the ways of a mode other than ModeAuto, in the order of the list of tools.
func (g *Gateway) Steps(mode Mode) []Way {
	f := g.faces.of[mode]
	var all []Way
	for _, m := range metaTools {
		if p := f.meta.tools[m.name]; p != nil {
			all = append(all, Way{m.name, p.Names()})
		}
	}
	if f.programs != nil {
		all = append(all, Way{"program: call", f.programs.call.Names()})
	}
	if f.direct != nil {
		all = append(all, Way{"", f.direct.Names()})
	}
	return all
}
