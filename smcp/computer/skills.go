package computer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/smcp"
)

// Bounds of skills.
const (
	maxSkills      = 256
	skillEntry     = "SKILL.md"
	inlineSkill    = 64 << 10 // bytes of a text that is sent inline
	maxFrontmatter = 64 << 10
)

// skillFolder serves the skills of a folder; with path "" it has none.
type skillFolder struct {
	path  string
	blobs *blobs
	log   *slog.Logger
}

// list returns the folders that have a SKILL.md with a name and a description.
func (f *skillFolder) list() []smcp.SkillRef {
	out := []smcp.SkillRef{}
	if f.path == "" {
		return out
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		f.log.Warn("the folder of skills cannot be read", "err", err)
		return out
	}
	for _, e := range entries {
		if !e.IsDir() || !legalSkill(e.Name()) || len(out) >= maxSkills {
			continue
		}
		folder, err := filepath.Abs(filepath.Join(f.path, e.Name()))
		if err != nil {
			continue
		}
		head, err := readHead(folder)
		if err != nil {
			f.log.Debug("a folder is no skill", "folder", folder, "err", err)
			continue
		}
		out = append(out, smcp.SkillRef{Name: e.Name(), Source: "user", Path: folder, Description: head.Description})
	}
	return out
}

// legalSkill reports whether a text is a valid name of a skill.
func legalSkill(name string) bool {
	return name != "" && len(name) <= 128 && !strings.HasPrefix(name, ".") && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}

type frontmatter struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
}

func readHead(folder string) (frontmatter, error) {
	var head frontmatter
	f, err := place.Open(filepath.Join(folder, skillEntry))
	if err != nil {
		return head, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFrontmatter))
	if err != nil {
		return head, err
	}
	front, _, ok := splitFrontmatter(data)
	if !ok {
		return head, errors.New("SKILL.md has no frontmatter")
	}
	if err := yaml.Unmarshal(front, &head); err != nil {
		return head, err
	}
	if head.Name == "" || head.Description == "" {
		return head, errors.New("SKILL.md needs a name and a description")
	}
	return head, nil
}

// splitFrontmatter splits a text into its YAML front matter and the rest.
func splitFrontmatter(data []byte) (front, body []byte, ok bool) {
	text := string(data)
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "\ufeff"), "---\n")
	if !ok {
		return nil, data, false
	}
	head, tail, ok := strings.Cut(rest, "\n---")
	if !ok {
		return nil, data, false
	}
	_, tail, _ = strings.Cut(tail, "\n")
	return []byte(head), []byte(strings.TrimLeft(tail, "\r\n")), true
}

// get returns one file of a skill: inline if it is a short text, otherwise as a blob.
func (f *skillFolder) get(req smcp.GetSkill) (smcp.Skill, error) {
	rel := req.RelPath
	if rel == "" {
		rel = skillEntry
	}
	data, mimeType, err := f.file(req.Name, rel)
	if err != nil {
		return smcp.Skill{}, err
	}
	sum := sha256.Sum256(data)
	out := smcp.Skill{Name: req.Name, RelPath: rel, MIMEType: mimeType, TotalSize: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), ReqID: req.ReqID}
	if len(data) <= inlineSkill && utf8.Valid(data) && isText(mimeType) {
		text := string(data)
		out.Body = &text
		return out, nil
	}
	handle, err := f.blobs.put(data, mimeType)
	if err != nil {
		return smcp.Skill{}, smcp.Errorf(smcp.CodeSkillPath, "%v", err).With("reason", "too_large", "rel_path", rel)
	}
	out.BlobHandle = handle
	return out, nil
}

func isText(mimeType string) bool {
	base, _, _ := strings.Cut(mimeType, ";")
	return strings.HasPrefix(base, "text/") || slices.Contains([]string{"application/json", "application/yaml", "application/x-sh", "application/javascript", "application/xml"}, base)
}

// file reads a file inside a skill's folder. It refuses paths and links that lead out of the folder.
func (s *skillFolder) file(name, rel string) ([]byte, string, error) {
	if !legalSkill(name) {
		return nil, "", smcp.Errorf(smcp.CodeSkillName, "'%s' is no name of a skill", clipName(name)).With("name", clipName(name))
	}
	unknown := smcp.Errorf(smcp.CodeNoServer, "Skill '%s' not found", name)
	if s.path == "" {
		return nil, "", unknown
	}
	refuse := func(reason, text string) error {
		return smcp.Errorf(smcp.CodeSkillPath, "%s", text).With("reason", reason, "rel_path", rel)
	}
	if !filepath.IsLocal(rel) || strings.Contains(rel, "\\") || path.Clean(rel) != rel {
		return nil, "", refuse("traversal", "rel_path leads out of the skill")
	}
	if slices.Contains(strings.Split(rel, "/"), ".skillenv") {
		return nil, "", refuse("forbidden", "this file is not handed out")
	}
	folder := filepath.Join(s.path, name)
	if _, err := readHead(folder); err != nil {
		return nil, "", unknown
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, "", unknown
	}
	defer root.Close()
	f, err := root.Open(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", refuse("not_found", "there is no such file in the skill")
	case err != nil:
		return nil, "", refuse("forbidden", "the file cannot be read")
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, "", refuse("not_found", "this is no file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBlob+1))
	switch {
	case err != nil:
		return nil, "", refuse("forbidden", "the file cannot be read")
	case len(data) > maxBlob:
		return nil, "", refuse("too_large", "the file is larger than a blob may be")
	}
	if rel == skillEntry {
		if _, body, ok := splitFrontmatter(data); ok {
			data = body
		}
		return data, "text/markdown", nil
	}
	mimeType := mime.TypeByExtension(filepath.Ext(rel))
	if mimeType == "" {
		mimeType = http.DetectContentType(data)
	}
	return data, mimeType, nil
}

func clipName(s string) string {
	if len(s) > 128 {
		return strings.ToValidUTF8(s[:128], "") + "…"
	}
	return s
}
