package clients

import "slices"

// Extensions returns the folders of the extensions that are installed in Claude Desktop, in order of
// their names. Each has a manifest.json.
func (e Environment) Extensions() (folders []string) {
	homes := []string{e.path("$CFG/Claude")}
	if e.OS == "windows" {
		homes = append(homes, e.expand("$LOCALAPPDATA/Packages/Claude_*/LocalCache/Roaming/Claude")...)
	}
	if e.Names == nil {
		return nil
	}
	for _, home := range homes {
		all := e.join(home, "Claude Extensions")
		for _, name := range slices.Sorted(slices.Values(e.Names(all))) {
			if folder := e.join(all, name); e.Exists(e.join(folder, "manifest.json")) {
				folders = append(folders, folder)
			}
		}
	}
	return folders
}
