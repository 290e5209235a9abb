// Package place knows the folders of a user's files, and handles the files of the state folder. Files
// that a person or a configuration names are opened by [Open], which refuses FIFOs and devices.
//
//	configuration   $XDG_CONFIG_HOME/weir/weir.yaml   else ~/.config/weir, on macOS too
//	                %APPDATA%\weir\weir.yaml          on Windows
//	state (0700)    $XDG_STATE_HOME/weir              else ~/.local/state/weir
//	                %LOCALAPPDATA%\weir               on Windows
//	data            $XDG_DATA_HOME/weir               else ~/.local/share/weir
//	                %LOCALAPPDATA%\weir               on Windows
//
//	state ─┬─ gateways/HASH.json   a running gateway: url, token, pid, version (0600)
//	       ├─ gateways/HASH.lock   held while a gateway of this configuration is being started
//	       ├─ logs/HASH.log        the log of a gateway that was started in the background
//	       ├─ operator.key         opens the operator's paths of the person's gateways (0600)
//	       ├─ trusted.json         configurations that the person has agreed to
//	       └─ journal/             changes of other programs' files
//	data ──── bundles/             servers that were unpacked, a folder each
//
// The paths come from an [Env], so tests can ask for the paths of every system. The package knows
// none of the contents.
package place
