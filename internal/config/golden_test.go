package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the cases give into their files")

// TestGolden reads every case of testdata. A case is one file in sections that
// begin with a line "-- name --": env (a variable a line, may be absent), the
// configuration under the name it is parsed as, and want: warnings, then every
// problem, or the servers of a good configuration. A file that begins with "alone-"
// is read as weir serve reads it, where what is wrong in an entry is wrong with its
// server alone; the others are read strictly.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.case")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".case"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c := splitCase(t, string(data))
			got := c.result(!strings.HasPrefix(filepath.Base(path), "alone-"))
			if *update {
				if err := os.WriteFile(path, []byte(c.head+"-- want --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

type goldenCase struct {
	head, name, text, want string
	env                    map[string]string
}

func splitCase(t *testing.T, data string) goldenCase {
	t.Helper()
	c := goldenCase{env: map[string]string{}}
	section := ""
	for line := range strings.Lines(data) {
		if name, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(name, " --\n") {
			section = strings.TrimSuffix(name, " --\n")
			if section != "env" && section != "want" {
				c.name = section
			}
			if section != "want" {
				c.head += line
			}
			continue
		}
		switch section {
		case "want":
			c.want += line
			continue
		case "env":
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok {
				t.Fatalf("env line without '=': %q", line)
			}
			c.env[name] = value
		case "":
		default:
			c.text += line
		}
		c.head += line
	}
	if c.name == "" {
		t.Fatal("the case has no configuration")
	}
	return c
}

func (c goldenCase) result(strict bool) string {
	port := 9000
	cfg, warnings, err := Parse(c.name, []byte(c.text), Options{
		LookupEnv:  func(name string) (string, bool) { v, ok := c.env[name]; return v, ok },
		Executable: func() (string, error) { return "/bin/weir", nil },
		FreePort:   func() (int, error) { port++; return port, nil },
		Dir:        "/etc/weir",
		Strict:     strict,
	})
	var out strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&out, "warning: %s\n", w)
	}
	var problems *Error
	switch {
	case errors.As(err, &problems):
		for _, p := range problems.Problems {
			fmt.Fprintf(&out, "%s\n", p)
		}
	case err != nil:
		fmt.Fprintf(&out, "unexpected kind of error: %v\n", err)
	default:
		fmt.Fprintf(&out, "ok: listen=%s mode=%s expose_hydrate=%t\n", cfg.Listen, cfg.Mode, cfg.ExposeHydrate)
		for _, s := range cfg.Servers {
			if s.Faulty() {
				fmt.Fprintf(&out, "faulty: %s disabled=%t required=%t namespace=%s\n", s.Name, s.Disabled, s.Required, s.Namespace)
				for _, p := range s.Problems {
					fmt.Fprintf(&out, "  %s\n", p)
				}
				continue
			}
			out.WriteString(strings.Replace(fmt.Sprintf("%+v\n", *s), "Problems:[] ", "", 1))
		}
		fmt.Fprintf(&out, "secrets: %q\n", cfg.Secrets())
	}
	return out.String()
}
