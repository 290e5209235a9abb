package dist

import (
	"crypto/sha256"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

type (
	// bom is a CycloneDX document, version 1.6.
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     bomMetadata  `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	bomMetadata struct {
		Time      string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Ref        string              `json:"bom-ref"`
		Type       string              `json:"type"`
		Name       string              `json:"name"`
		Version    string              `json:"version"`
		Hashes     []map[string]string `json:"hashes,omitempty"`
		Licenses   []map[string]any    `json:"licenses,omitempty"`
		PURL       string              `json:"purl"`
		Properties []map[string]string `json:"properties,omitempty"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

// BOM lists the modules of a binary, and Go's standard library. It reads the binary itself. So it
// names the modules that are linked, not those that go.mod allows.
func (r *Release) BOM(b Binary) ([]byte, error) {
	sum := sha256.Sum256(b.Data)
	module := strings.TrimSuffix(mainPackage, "/cmd/weir")
	self := component{
		Ref: "pkg:golang/" + module + "@v" + r.Version, Type: "application", Name: "weir", Version: "v" + r.Version,
		Hashes:     []map[string]string{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sum)}},
		Licenses:   []map[string]any{{"license": map[string]string{"id": "Apache-2.0"}}},
		Properties: []map[string]string{{"name": "go:os", "value": b.OS}, {"name": "go:arch", "value": b.Arch}},
	}
	self.PURL = self.Ref
	compiler, _, _ := strings.Cut(strings.TrimPrefix(b.info.GoVersion, "go"), " ") // "go1.26.0 X:…"
	components := []component{library(debug.Module{Path: "std", Version: compiler})}
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, library(*m))
	}
	slices.SortFunc(components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	used := make([]string, len(components))
	for i, c := range components {
		used[i] = c.Ref
	}
	return encode(bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial:     serial(sum),
		Metadata:   bomMetadata{r.Time.UTC().Format(time.RFC3339), self},
		Components: components, Dependencies: []dependency{{self.Ref, used}},
	})
}

// library describes a module. Go's own hash covers all files of a module, so it is not the hash of
// one file.
func library(m debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []map[string]string{{"name": "go:sum", "value": m.Sum}}
	}
	return c
}

// serial makes the document's number from the binary, in the form of a UUID of version 8. So the
// same binary has the same document.
func serial(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
