package api

import (
	"net/http"

	"github.com/weir-mcp/weir/mcp"
)

// A Setting is one key of the configuration with the value in effect.
type Setting struct {
	Key string `json:"key"`
	// Value is a boolean, a number, a text or a list of texts. Secrets are ***.
	Value any `json:"value"`
	// Origin is default, file, flag or env_file.
	Origin string `json:"origin"`
	// Source says in one line where the value comes from: weir.yaml:12, ${HOME}.
	Source string `json:"source"`
	Line   int    `json:"line,omitempty"` // of the file
	// From are the references in the text of the file, such as ${HOME}.
	From []string `json:"from,omitempty"`
}

// configAnswer is the answer of config.
type configAnswer struct {
	File     string    `json:"file,omitempty"`
	Settings []Setting `json:"settings"`
	Page     page      `json:"page"`
}

// config serves config: the configuration in effect.
func (a *checkup) config(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r, maxLimit)
	if err != nil {
		return err
	}
	if a.o.Settings == nil {
		return mcp.Errorf(mcp.KindNotFound, "this gateway does not tell its configuration")
	}
	query := r.URL.Query()
	file, all := a.o.Settings(query.Get("key"), query.Get("set") == "1")
	all = cut(all, &p)
	for i := range all {
		switch value := all[i].Value.(type) {
		case string:
			all[i].Value = clip(value, maxCell)
		case []string:
			short := make([]string, min(len(value), maxColumns))
			for j := range short {
				short[j] = clip(value[j], maxCell)
			}
			all[i].Value = short
		}
	}
	return write(w, configAnswer{file, all, p})
}
