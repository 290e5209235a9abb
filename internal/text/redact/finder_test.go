package redact

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// samples has a text of each well-known form, made of its prefix.
func samples() []string {
	const random = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6"
	var all []string
	for _, list := range shapes().shapes {
		for _, s := range list {
			text := s.prefix + random
			for range len(s.parts) - 1 {
				text += "." + random[:20]
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

func quoted(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// TestShapes: keys and tokens of 30 issuers and more are known by their form, alone and in a text.
func TestShapes(t *testing.T) {
	all := samples()
	if len(all) < 30 {
		t.Fatalf("%d forms", len(all))
	}
	for _, secret := range all {
		for text, want := range map[string]string{secret: Mark, "the key (" + secret + "), kept": "the key (" + Mark + "), kept", "x" + secret: "x" + secret, secret + " " + secret: Mark + " " + Mark} {
			if got := replaceShapes(text); got != want {
				t.Errorf("%q became %q, want %q", text, got, want)
			}
		}
	}
	for _, text := range []string{"", "s", "sk-", "sk-short", "task-of-the-whole-company", "AKIA", "SG.only-one-part-0123456789", "eyJhbGciOiJIUzI1NiJ9", "xoxq-1234567890"} {
		if got := replaceShapes(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// replaceShapes returns text with Mark in place of keys and tokens.
func replaceShapes(text string) string {
	var shapes Shapes
	out, done := "", 0
	for {
		start, end, found := shapes.Next(text, done)
		if !found {
			return out + text[done:]
		}
		out += text[done:start] + Mark
		done = end
	}
}

// TestShapesOfHostileText: a text of many starts of a token takes time in proportion to its length.
func TestShapesOfHostileText(t *testing.T) {
	began := time.Now()
	var shapes Shapes
	if _, _, found := shapes.Next(strings.Repeat("eyJ-", 2<<20), 0); found {
		t.Error("there is a token")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestFinder looks for secrets wherever arguments of a call may have them.
func TestFinder(t *testing.T) {
	const known, escaped, held = "hunter-22-and-more", "quo\"ted\\pass\n1", "held-token-0123"
	recent := NewRecent(3)
	recent.Add(held)
	f := NewFinder([]string{known, escaped}, recent)
	std, raw := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	secrets := append(samples(), known, escaped, held, "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----")
	for _, secret := range secrets {
		for name, v := range map[string]any{
			"a text":               secret,
			"within a text":        "use " + secret + " please",
			"deep":                 map[string]any{"a": []any{1, map[string]any{"b c": secret}}},
			"a name":               map[string]any{secret: 1},
			"JSON in a text":       string(quoted(map[string]any{"token": secret})),
			"JSON in JSON":         string(quoted(map[string]any{"body": string(quoted([]any{secret}))})),
			"base64":               std([]byte("{\"key\":\"" + string(secret) + "\"}")),
			"base64 with a name":   "data=" + std([]byte(secret)) + "&x=1",
			"base64 of URLs":       raw([]byte("user:" + secret)),
			"base64 in base64":     std([]byte(raw([]byte(secret)))),
			"base64 of JSON twice": std(quoted(map[string]any{"a": string(quoted(secret))})),
		} {
			at := f.Find("arguments", quoted(map[string]any{"first": "nothing", "second": v}))
			if !strings.HasPrefix(at, "arguments") || strings.Contains(at, secret) || !strings.Contains(at, "second") {
				t.Errorf("%q as %s: found at %q", secret, name, at)
			}
		}
	}
	for name, v := range map[string]any{
		"two texts":          map[string]any{"a": known[:7], "b": map[string]any{"c": known[7:]}},
		"a text a character": strings.Split(known, ""),
		"a held one":         []any{held[:4], held[4:9], held[9:]},
	} {
		if at := f.Find("arguments", quoted(v)); at != "arguments (in several texts)" {
			t.Errorf("%s: %q", name, at)
		}
	}
	if at := f.Find("x", quoted(map[string]any{strings.Repeat("k", 10_000): known})); len(at) > maxPlace+8 {
		t.Errorf("a place of %d bytes", len(at))
	}
	deep := known
	for range 12 {
		deep = string(quoted([]any{deep}))
	}
	_ = f.Find("x", []byte(deep)) // ends
	if at := (*Finder)(NewFinder(nil, nil)).Find("x", quoted(known)); at != "" {
		t.Errorf("a Finder without secrets: %q", at)
	}
}

// TestFinderKeepsTheRest: usual arguments hold no secret.
func TestFinderKeepsTheRest(t *testing.T) {
	f := NewFinder([]string{"hunter-22-and-more"}, nil)
	image := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range image {
		image[i] = byte(r.Uint32())
	}
	for _, v := range []any{
		nil, 17, true, "", "basic understanding of bearer authentication", "sk-learn-a-new-language", "5f0c1a34-8b1f-4f6e-9a0e-2b6d5d1f7c11", "9fceb02d0ae598e95dc970b74767f19372d61af8",
		map[string]any{"hunter": "22 and more", "token": "next page"}, "https://a.example/x?page_token=CAoQAA", "SG.a.b", base64.StdEncoding.EncodeToString(image), "[not JSON", `{"a":`,
	} {
		if at := f.Find("arguments", quoted(v)); at != "" {
			t.Errorf("%.80v: found at %q", v, at)
		}
	}
	// Nor do the documents and the source of this repository. What tests have made does not count.
	for _, dir := range []string{"docs", "examples", "internal/demo", "bench/questions"} {
		_ = filepath.WalkDir(filepath.Join("../../..", dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".json", ".jsonl", ".yaml", ".py"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for n, line := range strings.Split(string(text), "\n") {
				if at := f.Find("line", quoted(line)); at != "" {
					t.Errorf("%s:%d: %.120s", path, n+1, line)
				}
			}
			return nil
		})
	}
}

func FuzzFinder(f *testing.F) {
	for _, seed := range []string{`{"a":"hunter-22-and-more"}`, `["hunter-22","-and-more"]`, `"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"`, `{"a":"{\"b\":\"aHVudGVyLTIyLWFuZC1tb3Jl\"}"}`, `{`, ``} {
		f.Add(seed)
	}
	finder := NewFinder([]string{"hunter-22-and-more"}, nil)
	f.Fuzz(func(t *testing.T, raw string) {
		at := finder.Find("arguments", []byte(raw))
		if strings.Contains(at, "hunter-22-and-more") {
			t.Errorf("the place %q names the secret", at)
		}
		var text string
		if json.Unmarshal([]byte(raw), &text) == nil && strings.Contains(text, "hunter-22-and-more") && at == "" {
			t.Errorf("%q is not found", raw)
		}
	})
}

// BenchmarkFinder reads the arguments of a usual call.
func BenchmarkFinder(b *testing.B) {
	f := NewFinder([]string{"hunter-22-and-more", "another-secret-1"}, nil)
	raw := quoted(map[string]any{"repo": "acme/site", "title": "The page does not load", "labels": []string{"bug", "web"}, "body": strings.Repeat("Some words of a usual text, with a name: value here and there. ", 15)})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		f.Find("arguments", raw)
	}
}

// TestFinderWith finds the secret of one search alone, whatever its length.
func TestFinderWith(t *testing.T) {
	f := NewFinder([]string{"of-all-searches"}, nil)
	for _, secret := range []string{"of-ann/1", "of-bob/2", "of-ann/1", "t0k"} {
		text := func(s string) []byte { return []byte(`["` + s + `"]`) }
		with := f.With(secret)
		for _, form := range []string{secret, "of-all-searches"} {
			if at := with.Find("a", text(form)); at != "a[0]" {
				t.Errorf("with %s, %s is at %q", secret, form, at)
			}
		}
		if at := with.Find("a", text("of-eve/3")) + f.Find("a", text(secret)); at != "" {
			t.Errorf("with %s, another text is at %q", secret, at)
		}
	}
	if f.With("") != f {
		t.Error("no secret makes another Finder")
	}
}

// BenchmarkFinderWith searches small arguments for one more secret.
func BenchmarkFinderWith(b *testing.B) {
	f := NewFinder(nil, nil)
	raw := []byte(`{"path":"/tmp/a.txt","lines":[1,2,3],"note":"a few words of a person"}`)
	for b.Loop() {
		if f.With("opaque-token/of-the-caller-0123456789").Find("arguments", raw) != "" {
			b.Fatal("found")
		}
	}
}
