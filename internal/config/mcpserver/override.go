package mcpserver

import "github.com/weir-mcp/weir/internal/json/strict"

// Override is what the configuration changes of a tool of a server, as agents see it.
type Override struct {
	// Tool is the key in overrides: the server's name of the tool.
	Tool string

	Name        string        `key:"name" doc:"The name that agents see in place of the server's."`
	Title       string        `key:"title" doc:"The title that agents see."`
	Description string        `key:"description" doc:"The description that agents read."`
	Hide        []string      `key:"hide" empty:"same" doc:"Parameters that agents do not see and cannot set. One that the server requires needs a value in default or fixed."`
	Default     strict.Object `key:"default" doc:"Values of parameters that a call leaves out, by their names."`
	Fixed       strict.Object `key:"fixed" doc:"Values of parameters that agents neither see nor set, by their names. Texts may hold variables, such as ${secret:NAME}."`
	Annotations strict.Object `key:"annotations" doc:"Hints that replace the server's, such as readOnlyHint: true. Rules see them, too."`
}
