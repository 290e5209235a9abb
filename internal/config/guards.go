package config

// Guards are checks of what servers send.
type Guards struct {
	Unicode UnicodeGuard `key:"unicode" default:"flag" enum:"flag,strip,refuse" doc:"What happens to text in definitions that people do not see, such as Unicode tags, bidirectional controls and escape sequences. flag: it is a finding of /catalog, and left out of what models read at /mcp. strip: it is left out of titles and descriptions at /mcps/NAME/mcp, too. refuse: nothing that is defined with it runs."`
}

// UnicodeGuard is the treatment of invisible text in definitions.
type UnicodeGuard string

// What happens to it.
const (
	UnicodeFlag   UnicodeGuard = "flag"
	UnicodeStrip  UnicodeGuard = "strip"
	UnicodeRefuse UnicodeGuard = "refuse"
)
